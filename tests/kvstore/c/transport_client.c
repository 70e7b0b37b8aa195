/* A program over libskua.so.1 for transport_test.py.
 *
 *   transport_client MODE TABLE NAME=VALUE...      the options of its clients
 *
 * Prints "ok", or what the library says of a failure, and then ends with 1. */
#include <poll.h>
#include <skua/skua.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGE_BYTES = 1 << 20, LONGEST_NAME = 64 };

static char** words;
static const char* table;

static void fail(const char* what, const char* text) {
  printf("%s: %s\n", what, text);
  fflush(stdout);
  _exit(1);
}

static skua_bytes bytes_of(const char* text) {
  return (skua_bytes){text, strlen(text)};
}

static void set(skua_options* options, const char* word) {
  const char* value = strchr(word, '=');
  char name[LONGEST_NAME] = "";
  if (value == NULL || value - word >= LONGEST_NAME) fail("usage", word);
  memcpy(name, word, (size_t)(value - word));
  skua_error error = SKUA_ERROR_INIT;
  if (skua_options_set(options, name, value + 1, &error) != SKUA_OK) fail("option", error.text);
}

/* `more`: one more option, or NULL. NULL: `error` says why. */
static skua_client* create(bool polled, const char* more, skua_error* error) {
  skua_options* options = skua_options_create();
  for (char** word = words; *word != NULL; ++word) set(options, *word);
  if (more != NULL) set(options, more);
  skua_client* client = polled ? skua_client_create_polled(options, error) : skua_client_create(options, error);
  skua_options_destroy(options);
  return client;
}

static skua_client* create_or_fail(bool polled) {
  skua_error error = SKUA_ERROR_INIT;
  skua_client* client = create(polled, NULL, &error);
  if (client == NULL) fail("create", error.text);
  return client;
}

static void put(skua_client* client, skua_bytes key, skua_bytes value) {
  skua_result* result = skua_put(client, table, key, value, NULL);
  if (skua_result_code(result) != SKUA_OK) fail("put", skua_result_text(result));
  skua_result_release(result);
}

static void get(skua_client* client, skua_bytes key, skua_bytes expected) {
  skua_result* result = skua_get(client, table, key, NULL);
  if (skua_result_code(result) != SKUA_OK) fail("get", skua_result_text(result));
  const skua_bytes value = skua_result_value(result);
  if (value.length != expected.length || memcmp(value.data, expected.data, value.length) != 0)
    fail("get", "other bytes");
  skua_result_release(result);
}

static void try_blocking(void) {
  skua_client* first = create_or_fail(false);
  put(first, bytes_of("k"), bytes_of("v"));
  get(first, bytes_of("k"), bytes_of("v"));
  char* large = malloc(LARGE_BYTES);
  for (int i = 0; i < LARGE_BYTES; ++i) large[i] = (char)(i * 31 % 251);
  put(first, bytes_of("large"), (skua_bytes){large, LARGE_BYTES});
  /* A second client beside it shares the devices, and a third one finds them open when both are gone. */
  skua_client* second = create_or_fail(false);
  get(second, bytes_of("large"), (skua_bytes){large, LARGE_BYTES});
  skua_client_destroy(first);
  skua_client_destroy(second);
  skua_client* third = create_or_fail(false);
  get(third, bytes_of("k"), bytes_of("v"));
  skua_client_destroy(third);
  free(large);
}

/* How a polled operation ended. */
typedef struct ended {
  bool is_done;
  skua_code code;
} ended;

static void done(void* context, const skua_result* result) {
  ended* to = context;
  to->is_done = true;
  to->code = skua_result_code(result);
}

/* How often poll_until() slept. */
static int wait_count = 0;

/* As an event loop does it. */
static void poll_until(skua_client* client, const bool* is_done) {
  while (!*is_done) {
    if (skua_poll(client, 0, NULL) != SKUA_OK) fail("poll", "refused");
    int64_t longest_ns = 0;
    if (!skua_begin_wait(client, &longest_ns)) continue;
    ++wait_count;
    if (skua_wait_fd(client) >= 0) {
      struct pollfd watched = {skua_wait_fd(client), POLLIN, 0};
      poll(&watched, 1, (int)(longest_ns / 1000000));
    } else {
      if (longest_ns > 1000000) fail("wait", "longer than packets may lie there");
      const struct timespec pause = {0, (long)longest_ns};
      nanosleep(&pause, NULL);
    }
    skua_end_wait(client);
  }
}

static void try_polled(void) {
  skua_client* client = create_or_fail(true);
  skua_error error = SKUA_ERROR_INIT;
  ended put_end = {false, SKUA_OK};
  ended get_end = {false, SKUA_OK};
  skua_async_put(client, table, bytes_of("polled"), bytes_of("v"), NULL, done, &put_end, &error);
  poll_until(client, &put_end.is_done);
  skua_async_get(client, table, bytes_of("polled"), NULL, done, &get_end, &error);
  poll_until(client, &get_end.is_done);
  if (put_end.code != SKUA_OK || get_end.code != SKUA_OK) fail("polled", "an operation failed");
  if (wait_count == 0) fail("polled", "a client with nothing to do never let the loop sleep");
  if (skua_client_destroy(client) != SKUA_OK) fail("polled", "not destroyed");
}

/* Polls without a pause until stdin is at its end, and tells of the first answer. */
static void try_spin(void) {
  skua_client* client = create_or_fail(true);
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  ended end = {true, SKUA_OK};
  bool has_told = false;
  while (poll(&input, 1, 0) == 0) {
    if (end.is_done) {
      end = (ended){false, SKUA_OK};
      skua_error error = SKUA_ERROR_INIT;
      if (skua_async_get(client, table, bytes_of("nosuch"), NULL, done, &end, &error) != SKUA_OK)
        fail("get", error.text);
    }
    for (int i = 0; i < 1000 && !end.is_done; ++i) skua_poll(client, 0, NULL);
    if (!end.is_done || end.code != SKUA_NOT_FOUND || has_told) continue;
    has_told = true;
    puts("polling");
    fflush(stdout);
  }
  skua_client_destroy(client);
}

/* Another client with another option. */
static void try_other(const char* option) {
  skua_client* client = create_or_fail(false);
  skua_error error = SKUA_ERROR_INIT;
  if (create(false, option, &error) == NULL) fail("other", error.text);
  skua_client_destroy(client);
}

/* The child can have no client, and does no harm to its parent's. */
static void try_fork(void) {
  skua_client* client = create_or_fail(false);
  put(client, bytes_of("k"), bytes_of("v"));
  const pid_t child = fork();
  if (child == 0) {
    skua_error error = SKUA_ERROR_INIT;
    if (create(false, NULL, &error) != NULL) fail("fork", "the child has a client");
    puts(error.text);
    exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) fail("fork", "the child did not end well");
  get(client, bytes_of("k"), bytes_of("v"));
  skua_client_destroy(client);
}

/* Ends with clients of both kinds, one of which is at work in a thread of its own. */
static void try_leave(void) {
  skua_client* client = create_or_fail(false);
  put(client, bytes_of("k"), bytes_of("v"));
  create_or_fail(true);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* mode = argv[1];
  table = argv[2];
  words = argv + 3;
  if (strcmp(mode, "create") == 0) skua_client_destroy(create_or_fail(false));
  if (strcmp(mode, "blocking") == 0) try_blocking();
  if (strcmp(mode, "polled") == 0) try_polled();
  if (strcmp(mode, "spin") == 0) try_spin();
  if (strcmp(mode, "other") == 0) try_other("dpdk-mtu=1000");
  if (strcmp(mode, "fork") == 0) try_fork();
  if (strcmp(mode, "leave") == 0) try_leave();
  puts("ok");
  return 0;
}
