/* Sessions of a web site, kept in a table: they expire when nobody has used them for half an hour.
 *
 *   session_store login USER         begins a session and prints its id
 *   session_store visit ID PAGE      adds a page to the session
 *   session_store show ID            prints user, pages, and how long the session has to live
 *   session_store logout ID          ends it
 *
 * The table `sessions` must exist. SKUA_CONTROL_ADDRESS says where the control plane listens. docs/c.md walks through it.
 */
#include <skua/skua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const kTable = "sessions";
static const int64_t kLifetimeNs = INT64_C(30) * 60 * 1000000000;
enum { SESSION_BYTES_MAX = 4096 };

static int fail(const char* what, const skua_result* result) {
  fprintf(stderr, "session_store: %s: %s%s\n", what, skua_result_text(result),
          skua_may_have_been_applied(result) ? " (it may have been done all the same)" : "");
  return 1;
}

static skua_client* connect(void) {
  skua_error error = SKUA_ERROR_INIT;
  skua_options* options = skua_options_create();
  const char* const address = getenv("SKUA_CONTROL_ADDRESS");
  skua_client* client = NULL;
  if (address == NULL || skua_options_set(options, "control-address", address, &error) == SKUA_OK) {
    client = skua_client_create(options, &error);
  }
  skua_options_destroy(options);
  if (client == NULL) fprintf(stderr, "session_store: %s\n", error.text);
  return client;
}

/* 128 bits that nobody guesses. False: the system has none. */
static bool draw_id(char id[33]) {
  unsigned char random[16];
  FILE* source = fopen("/dev/urandom", "rb");
  const size_t count = source == NULL ? 0 : fread(random, 1, sizeof(random), source);
  if (source != NULL) fclose(source);
  for (size_t i = 0; i < count; ++i) snprintf(id + 2 * i, 3, "%02x", random[i]);
  return count == sizeof(random);
}

static int login(skua_client* client, const char* user) {
  char id[33];
  if (!draw_id(id)) return 1;
  skua_write_options options = SKUA_WRITE_OPTIONS_INIT;
  options.if_absent = true;
  options.ttl_ns = kLifetimeNs;
  skua_result* result = skua_put(client, kTable, skua_text(id), skua_text(user), &options);
  const int failed = skua_result_code(result) == SKUA_OK ? 0 : fail("login", result);
  if (!failed) puts(id);
  skua_result_release(result);
  return failed;
}

/* Writes the session that `read` has, with one page more. */
static skua_result* write_visit(skua_client* client, const char* id, const skua_result* read, const char* page) {
  char session[SESSION_BYTES_MAX];
  const skua_bytes old = skua_result_value(read);
  const int length = snprintf(session, sizeof(session), "%.*s %s", (int)old.length, (const char*)old.data, page);
  if (length < 0 || (size_t)length >= sizeof(session)) return NULL;
  skua_write_options options = SKUA_WRITE_OPTIONS_INIT;
  options.has_if_version = true;
  options.if_version = skua_result_version(read);
  options.ttl_ns = kLifetimeNs;
  const skua_bytes value = {session, (size_t)length};
  return skua_put(client, kTable, skua_text(id), value, &options);
}

/* Two requests of one visitor may come at the same time. The condition makes one of them read again: no page is lost. */
static int visit(skua_client* client, const char* id, const char* page) {
  for (;;) {
    skua_result* read = skua_get(client, kTable, skua_text(id), NULL);
    if (skua_result_code(read) != SKUA_OK) {
      const int failed =
          skua_result_code(read) == SKUA_NOT_FOUND ? fail("there is no such session", read) : fail("visit", read);
      skua_result_release(read);
      return failed;
    }
    skua_result* written = write_visit(client, id, read, page);
    skua_result_release(read);
    const skua_code code = skua_result_code(written);
    const bool is_other_version = code == SKUA_FAILED_PRECONDITION && skua_result_outcome(written) == SKUA_ANSWERED;
    const int failed = code == SKUA_OK || is_other_version ? 0 : fail("visit", written);
    skua_result_release(written);
    if (!is_other_version) return failed;
  }
}

static int show(skua_client* client, const char* id) {
  skua_read_options options = SKUA_READ_OPTIONS_INIT;
  options.with_ttl = true;
  skua_result* result = skua_get(client, kTable, skua_text(id), &options);
  const int failed = skua_result_code(result) == SKUA_OK ? 0 : fail("show", result);
  if (!failed) {
    const skua_bytes session = skua_result_value(result);
    printf("%.*s, %lld s to live\n", (int)session.length, (const char*)session.data,
           (long long)skua_result_ttl_ms(result) / 1000);
  }
  skua_result_release(result);
  return failed;
}

static int logout(skua_client* client, const char* id) {
  skua_result* result = skua_remove(client, kTable, skua_text(id), NULL);
  const int failed = skua_result_code(result) == SKUA_OK ? 0 : fail("logout", result);
  skua_result_release(result);
  return failed;
}

static int run(skua_client* client, int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "login") == 0) return login(client, argv[2]);
  if (argc == 4 && strcmp(argv[1], "visit") == 0) return visit(client, argv[2], argv[3]);
  if (argc == 3 && strcmp(argv[1], "show") == 0) return show(client, argv[2]);
  if (argc == 3 && strcmp(argv[1], "logout") == 0) return logout(client, argv[2]);
  fputs("usage: session_store login USER | visit ID PAGE | show ID | logout ID\n", stderr);
  return 2;
}

int main(int argc, char** argv) {
  skua_client* client = connect();
  if (client == NULL) return 1;
  const int code = run(client, argc, argv);
  skua_client_destroy(client);
  return code;
}
