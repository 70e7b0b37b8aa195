/* A C program with an event loop: poll(2). usage: consumer CONTROL_ADDRESS TABLE */
#include <poll.h>
#include <skua/skua.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 100 };

struct progress {
  skua_client* client;
  const char* table;
  int written, read, failed;
  skua_result* kept;
};

static void on_read(void* context, const skua_result* result) {
  struct progress* progress = context;
  if (skua_result_code(result) != SKUA_OK || skua_result_value(result).length != 2000) {
    fprintf(stderr, "get: %s\n", skua_result_text(result));
    ++progress->failed;
  }
  if (progress->kept == NULL) progress->kept = skua_result_keep(result);
  ++progress->read;
}

/* A callback may begin the next operation. */
static void on_written(void* context, const skua_result* result) {
  struct progress* progress = context;
  char key[32];
  snprintf(key, sizeof(key), "loop%d", progress->written++);
  if (skua_result_code(result) != SKUA_OK ||
      skua_async_get(progress->client, progress->table, skua_text(key), NULL, on_read, progress, NULL) != SKUA_OK) {
    fprintf(stderr, "put: %s\n", skua_result_text(result));
    ++progress->failed;
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  skua_error error = SKUA_ERROR_INIT;
  skua_options* options = skua_options_create();
  skua_options_set(options, "control-address", argv[1], NULL);
  skua_options_set(options, "timeout", "60s", NULL);
  skua_client* client = skua_client_create_polled(options, &error);
  skua_options_destroy(options);
  if (client == NULL || skua_warm_up(client, argv[2], 0, &error) != SKUA_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  struct progress progress = {client, argv[2], 0, 0, 0, NULL};
  char value[2000];
  memset(value, 'v', sizeof(value));
  for (int i = 0; i < COUNT; ++i) {
    char key[32];
    snprintf(key, sizeof(key), "loop%d", i);
    const skua_bytes bytes = {value, sizeof(value)};
    if (skua_async_put(client, argv[2], skua_text(key), bytes, NULL, on_written, &progress, &error) != SKUA_OK) {
      fprintf(stderr, "%s\n", error.text);
      return 1;
    }
  }
  struct pollfd watched = {skua_wait_fd(client), POLLIN, 0};
  while (progress.read + progress.failed < COUNT) {
    int64_t longest_ns;
    skua_poll(client, 0, NULL);
    if (!skua_begin_wait(client, &longest_ns)) continue;
    const int64_t longest_ms = longest_ns / 1000000 + 1;
    poll(&watched, 1, longest_ms < 1000 ? (int)longest_ms : 1000);
    skua_end_wait(client);
  }
  if (skua_client_destroy(client) != SKUA_OK) return 1;
  /* A result that was kept outlives the client. */
  if (memcmp(skua_result_value(progress.kept).data, value, sizeof(value)) != 0) return 1;
  skua_result_release(progress.kept);
  if (progress.failed > 0) return 1;
  puts("ok");
  return 0;
}
