/* A C program that blocks. usage: consumer CONTROL_ADDRESS TABLE [OPTION=VALUE]... */
#include <skua/skua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int holds, const char* what, const skua_result* result) {
  if (holds) return;
  fprintf(stderr, "not so: %s: %s %s\n", what, skua_code_name(skua_result_code(result)), skua_result_text(result));
  exit(1);
}

static int has(skua_bytes bytes, const char* text) {
  return bytes.length == strlen(text) && memcmp(bytes.data, text, bytes.length) == 0;
}

/* "timeout=5s" */
static skua_code set(skua_options* options, char* word, skua_error* error) {
  char* const sign = strchr(word, '=');
  if (sign == NULL) return skua_options_set(options, word, NULL, error);
  *sign = '\0';
  return skua_options_set(options, word, sign + 1, error);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* const table = argv[2];
  skua_error error = SKUA_ERROR_INIT;
  skua_options* options = skua_options_create();
  if (skua_options_set(options, "control-address", argv[1], &error) != SKUA_OK ||
      skua_options_set(options, "timeout", "60s", &error) != SKUA_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  for (int i = 3; i < argc; ++i) {
    if (set(options, argv[i], &error) == SKUA_OK) continue;
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  skua_client* client = skua_client_create(options, &error);
  skua_options_destroy(options);
  if (client == NULL) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }

  skua_result* r = skua_put(client, table, skua_text("ada"), skua_text("1815"), NULL);
  expect(skua_result_code(r) == SKUA_OK, "put", r);
  const uint64_t version = skua_result_version(r);
  skua_result_release(r);

  skua_write_options condition = SKUA_WRITE_OPTIONS_INIT;
  condition.if_absent = true;
  r = skua_put(client, table, skua_text("ada"), skua_text("1816"), &condition);
  expect(skua_result_code(r) == SKUA_ALREADY_EXISTS, "put if_absent", r);
  expect(skua_result_outcome(r) == SKUA_ANSWERED && !skua_may_have_been_applied(r), "an answer", r);
  expect(skua_result_version(r) == version, "the key's version", r);
  skua_result_release(r);

  skua_read_options read = SKUA_READ_OPTIONS_INIT;
  read.with_ttl = true;
  r = skua_get(client, table, skua_text("ada"), &read);
  expect(has(skua_result_value(r), "1815") && skua_result_ttl_ms(r) == -1, "get", r);
  skua_result_release(r);

  for (int i = 0; i < 3; ++i) {
    r = skua_add(client, table, skua_text("visits"), 2, NULL);
    expect(skua_result_number(r) == 2 * (i + 1), "add", r);
    expect(skua_result_durability(r) == SKUA_DURABILITY_SYNC, "synced", r);
    skua_result_release(r);
  }

  const skua_bytes keys[] = {skua_text("visits"), skua_text("nobody")};
  r = skua_multi_get(client, table, keys, 2, NULL);
  skua_entry entry = SKUA_ENTRY_INIT;
  expect(skua_result_entry(r, 0, &entry) && has(entry.value, "6") && entry.token.index != 0, "multi_get", r);
  expect(skua_result_entry(r, 1, &entry) && entry.code == SKUA_NOT_FOUND, "multi_get of a missing key", r);
  skua_result_release(r);

  r = skua_scan(client, table, NULL, NULL);
  expect(skua_result_entry_count(r) == 2 && skua_result_entry(r, 0, &entry) && has(entry.key, "ada"), "scan", r);
  skua_result_release(r);

  r = skua_get(client, "nosuch", skua_text("ada"), NULL);
  expect(skua_result_code(r) != SKUA_OK && skua_result_outcome(r) == SKUA_NOT_DONE, "a table that is not there", r);
  skua_result_release(r);

  if (skua_client_destroy(client) != SKUA_OK) return 1;
  printf("ok %s\n", skua_version());
  return 0;
}
