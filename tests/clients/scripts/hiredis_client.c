/* hiredis with the gateway: hiredis_client PORT. Ends with 1 at the first reply that is not as with Redis. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

static void expect_text(redisReply* reply, int type, const char* text, size_t bytes) {
  check(reply != NULL && reply->type == type && reply->len == bytes && memcmp(reply->str, text, bytes) == 0, text);
  freeReplyObject(reply);
}

static void expect_number(redisReply* reply, long long number, const char* what) {
  check(reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == number, what);
  freeReplyObject(reply);
}

static void values(redisContext* c) {
  static const char kBinary[] = "\0\r\n\xff";
  const size_t large_bytes = 1 << 20;
  char* large = malloc(large_bytes);
  memset(large, 'x', large_bytes);
  expect_text(redisCommand(c, "SET c:bin %b", kBinary, sizeof kBinary), REDIS_REPLY_STATUS, "OK", 2);
  expect_text(redisCommand(c, "GET c:bin"), REDIS_REPLY_STRING, kBinary, sizeof kBinary);
  expect_text(redisCommand(c, "SET c:large %b", large, large_bytes), REDIS_REPLY_STATUS, "OK", 2);
  expect_text(redisCommand(c, "GET c:large"), REDIS_REPLY_STRING, large, large_bytes);
  free(large);
  expect_number(redisCommand(c, "EXPIRE c:bin 100"), 1, "expire");
  redisReply* ttl = redisCommand(c, "TTL c:bin");
  check(ttl != NULL && ttl->integer > 90 && ttl->integer <= 100, "ttl");
  freeReplyObject(ttl);
  expect_number(redisCommand(c, "HSET c:h a 1 b 2"), 2, "hset");
  expect_text(redisCommand(c, "HGET c:h b"), REDIS_REPLY_STRING, "2", 1);
}

static void pipeline(redisContext* c) {
  for (int i = 0; i < 1000; ++i) redisAppendCommand(c, "INCR c:n");
  for (int i = 1; i <= 1000; ++i) {
    redisReply* reply = NULL;
    check(redisGetReply(c, (void**)&reply) == REDIS_OK, "pipeline");
    expect_number(reply, i, "pipeline");
  }
}

static void transaction_and_errors(redisContext* c) {
  expect_text(redisCommand(c, "MULTI"), REDIS_REPLY_STATUS, "OK", 2);
  expect_text(redisCommand(c, "SET c:t 1"), REDIS_REPLY_STATUS, "QUEUED", 6);
  expect_text(redisCommand(c, "INCR c:t"), REDIS_REPLY_STATUS, "QUEUED", 6);
  redisReply* done = redisCommand(c, "EXEC");
  check(done != NULL && done->type == REDIS_REPLY_ARRAY && done->elements == 2 && done->element[1]->integer == 2,
        "exec");
  freeReplyObject(done);
  redisReply* error = redisCommand(c, "INCR c:h");
  check(error != NULL && error->type == REDIS_REPLY_ERROR && strncmp(error->str, "WRONGTYPE", 9) == 0, "error");
  freeReplyObject(error);
  redisReply* absent = redisCommand(c, "GET c:absent");
  check(absent != NULL && absent->type == REDIS_REPLY_NIL, "nil");
  freeReplyObject(absent);
}

int main(int argc, char** argv) {
  check(argc == 2, "usage: hiredis_client PORT");
  const struct timeval limit = {.tv_sec = 60, .tv_usec = 0};
  redisContext* c = redisConnectWithTimeout("127.0.0.1", atoi(argv[1]), limit);
  check(c != NULL && c->err == 0 && redisSetTimeout(c, limit) == REDIS_OK, "connect");
  freeReplyObject(redisCommand(c, "DEL c:bin c:large c:h c:n c:t c:absent"));
  values(c);
  pipeline(c);
  transaction_and_errors(c);
  redisFree(c);
  return 0;
}
