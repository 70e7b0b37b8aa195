// A C++17 program without exceptions. usage: consumer CONTROL_ADDRESS TABLE
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <skua/skua.hpp>

namespace {

int fail(const char* what, const skua::Status& status) {
  std::fprintf(stderr, "not so: %s: %s %s\n", what, skua_code_name(status.code()), status.text().c_str());
  return 1;
}

int use_blocking(const char* address, const std::string& table) {
  auto client = skua::Client::create({{"control-address", address}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  const auto written = client->put(table, "grace", "1906", {});
  if (!written) return fail("put", written.status());

  skua::WriteOptions absent;
  absent.if_absent = true;
  auto refused = client->put(table, "grace", "1907", absent);
  if (refused || refused.status().code() != SKUA_ALREADY_EXISTS || refused.status().version() == 0) {
    return fail("if_absent", refused.status());
  }
  skua::ReadOptions with_ttl;
  with_ttl.with_ttl = true;
  auto read = client->get(table, "grace", with_ttl);
  if (!read || read->bytes() != "1906" || read->ttl().has_value()) return fail("get", read.status());
  const skua::Value copy = *read;  // shares the memory
  read = skua::Result<skua::Value>(skua::Status());
  if (copy.str() != "1906") return fail("a copy of a value", read.status());
  auto missing = client->get(table, "nobody");
  if (missing || missing.status().code() != SKUA_NOT_FOUND || missing.status().outcome() != SKUA_ANSWERED) {
    return fail("a missing key", missing.status());
  }

  auto expiring = client->expire(table, "grace", std::chrono::hours(1));
  if (!expiring) return fail("expire", expiring.status());
  read = client->get(table, "grace", with_ttl);
  if (!read || !read->ttl().has_value()) return fail("ttl", read.status());
  if (auto added = client->add(table, "n", 41); !added || added->number != 41) return fail("add", added.status());
  if (auto done = client->append(table, "n", "0"); !done) return fail("append", done.status());

  skua::Batch batch;
  batch.add("n", 5).append("n", "1");
  auto ran = client->batch(table, batch);
  if (!ran || ran->size() != 2 || (*ran)[0].number != 415) return fail("batch", ran.status());
  auto many = client->multi_get(table, {"n", "nobody"});
  if (!many || (*many)[0].value != "4151" || (*many)[1].ok()) return fail("multi_get", many.status());
  skua::ScanRange range;
  range.limit = 1;
  auto rows = client->scan(table, range);
  if (!rows || rows->size() != 1 || (*rows)[0].key != "grace" || !rows->has_more()) return fail("scan", rows.status());
  if (auto gone = client->remove(table, "grace"); !gone) return fail("remove", gone.status());
  return 0;
}

int use_polled(const char* address, const std::string& table) {
  auto client = skua::PolledClient::create({{"control-address", address}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  int left = 0;
  std::vector<skua::Value> kept;
  for (int i = 0; i < 10; ++i) {
    const std::string key = "polled" + std::to_string(i);
    const skua::Status accepted = client->put(table, key, key, {}, [&, key](const skua::Reply& written) {
      if (!written.ok()) return;
      const skua::Status next = client->get(table, key, {}, [&, key](const skua::Reply& read) {
        if (read.bytes() == key) kept.push_back(read.keep_value());
        --left;
      });
      if (!next) std::fprintf(stderr, "%s\n", next.text().c_str());
    });
    if (!accepted) return fail("put", accepted);
    ++left;
  }
  while (left > 0) client->poll(std::chrono::milliseconds(100));
  const skua::Status refused = client->put(table, "", "", {}, [](const skua::Reply&) {});
  if (refused.code() != SKUA_INVALID_ARGUMENT) return fail("an empty key", refused);
  return kept.size() == 10 ? 0 : fail("values", refused);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int failed = use_blocking(argv[1], argv[2]) + use_polled(argv[1], argv[2]);
  if (failed == 0) std::puts("ok");
  return failed;
}
