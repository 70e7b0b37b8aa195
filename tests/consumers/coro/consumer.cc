// A C++20 program with coroutines and without exceptions. usage: consumer CONTROL_ADDRESS TABLE
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <skua/skua_coro.hpp>

namespace {

int fail(const char* what, const skua::Status& status) {
  std::fprintf(stderr, "not so: %s: %s %s\n", what, skua_code_name(status.code()), status.text().c_str());
  return 1;
}

skua::Task<int> use_operations(skua::CoroClient client, std::string table) {
  const auto written = co_await client.put(table, std::string("grace"), std::string(100'000, 'h'));
  if (!written || written->version == 0) co_return fail("put", written.status());
  const auto read = co_await client.get(table, "grace");
  const auto missing = co_await client.get(table, "nobody");
  // Kept: another operation has run since.
  if (!read || read->bytes() != std::string(100'000, 'h')) co_return fail("get", read.status());
  if (missing || missing.status().code() != SKUA_NOT_FOUND) co_return fail("a missing key", missing.status());
  skua::WriteOptions absent;
  absent.if_absent = true;
  const auto refused = co_await client.put(table, "grace", "1907", absent);
  if (refused || refused.status().version() != written->version) co_return fail("if_absent", refused.status());

  if (auto added = co_await client.add(table, "n", 41); !added || added->number != 41)
    co_return fail("add", added.status());
  if (auto done = co_await client.append(table, "n", "0"); !done) co_return fail("append", done.status());
  if (auto done = co_await client.expire(table, "n", std::chrono::hours(1)); !done)
    co_return fail("expire", done.status());
  skua::Batch batch;
  batch.add("n", 5).append("n", "1");
  const auto ran = co_await client.batch(table, batch);
  if (!ran || ran->size() != 2 || (*ran)[0].number != 415) co_return fail("batch", ran.status());
  const std::vector<std::string_view> keys = {"n", "nobody"};  // GCC 12 refuses a list in braces beside a co_await
  const auto many = co_await client.multi_get(table, keys);
  if (!many || (*many)[0].value != "4151" || (*many)[1].ok()) co_return fail("multi_get", many.status());
  skua::ScanRange range;
  range.limit = 1;
  const auto rows = co_await client.scan(table, range);
  if (!rows || rows->size() != 1 || (*rows)[0].key != "grace") co_return fail("scan", rows.status());
  if (auto gone = co_await client.remove(table, "grace"); !gone) co_return fail("remove", gone.status());
  // Refused before it begins: the coroutine goes on at once.
  const auto empty = co_await client.get(table, "");
  co_return empty.status().code() == SKUA_INVALID_ARGUMENT ? 0 : fail("an empty key", empty.status());
}

skua::Task<> visit(skua::CoroClient client, std::string table, int* ended) {
  for (int i = 0; i < 10; ++i) {
    if (auto added = co_await client.add(table, "visits", 1); !added) co_return;
  }
  ++*ended;
}

/// Several at a time: started, then awaited, the first one also before it has begun.
skua::Task<int> use_several(skua::CoroClient client, std::string table) {
  std::vector<skua::Task<>> visits;
  int ended = 0;
  for (int i = 0; i < 8; ++i) visits.push_back(visit(client, table, &ended));
  for (size_t i = 1; i < visits.size(); ++i) visits[i].start();
  for (auto& task : visits) co_await task;
  const auto sum = co_await client.add(table, "visits", 0);
  co_return sum && sum->number == 80 && ended == 8 ? 0 : fail("several at a time", sum.status());
}

/// In an event loop of the program's.
int use_event_loop(skua::PolledClient& client, const std::string& table) {
  int ended = 0;
  auto task = visit(client, table, &ended);
  task.start();
  pollfd watched = {client.wait_fd(), POLLIN, 0};
  while (!task.done()) {
    if (const auto polled = client.poll(); !polled) return fail("poll", polled);
    const auto longest = client.begin_wait();
    if (!longest) continue;
    poll(&watched, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*longest).count() % 60'000));
    if (const auto done = client.end_wait(); !done) return fail("end_wait", done);
  }
  return ended == 1 ? 0 : fail("an event loop", {});
}

/// close() ends what a task waits for, so that the task may be destroyed.
int use_close(const std::string& table) {
  auto client = skua::PolledClient::create({{"control-address", "127.0.0.1:9"}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  int ended = 0;
  auto waiting = visit(*client, table, &ended);
  auto never_begun = visit(*client, table, &ended);
  waiting.start();
  const bool has_waited = !waiting.done();
  if (const auto closed = client->close(); !closed) return fail("close", closed);
  return has_waited && waiting.done() && ended == 0 ? 0 : fail("close", {});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto client = skua::PolledClient::create({{"control-address", argv[1]}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  const int failed = skua::run(*client, use_operations(*client, argv[2])) +
                     skua::run(*client, use_several(*client, argv[2])) + use_event_loop(*client, argv[2]) +
                     use_close(argv[2]);
  if (failed == 0) std::puts("ok");
  return failed;
}
