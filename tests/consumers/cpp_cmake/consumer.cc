// A C++17 program without exceptions. usage: consumer CONTROL_ADDRESS TABLE
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
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
  if (!written || written->version == 0 || (*written).repeated) return fail("put", written.status());

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

  const auto row = client->patch(table, "row", {{"name", "ada"}, {"born", "1815"}, {"wrong", ""}}, true);
  if (!row) return fail("patch", row.status());
  if (auto less = client->patch(table, "row", {{"wrong", std::nullopt}}); !less) return fail("patch", less.status());
  skua::ReadOptions names;
  names.fields = {"born", "wrong"};
  read = client->get(table, "row", names);
  if (!read || read->field("born") != "1815" || read->field("name")) return fail("get of fields", read.status());
  read = client->get(table, "row");
  std::string all;
  if (read) {
    for (skua::RowReader reader(read->bytes()); const auto field = reader.next();)
      all.append(field->name).append(*field->value);
  }
  if (all != "nameadaborn1815") return fail("the fields of a row", read.status());
  if (auto gone = client->remove(table, "row"); !gone) return fail("remove", gone.status());

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
  while (left > 0) {
    if (const skua::Status polled = client->poll(std::chrono::milliseconds(100)); !polled) return fail("poll", polled);
  }
  const skua::Status refused = client->put(table, "", "", {}, [](const skua::Reply&) {});
  if (refused.code() != SKUA_INVALID_ARGUMENT) return fail("an empty key", refused);
  return kept.size() == 10 ? 0 : fail("values", refused);
}

void count_release(void* context) {
  ++*static_cast<int*>(context);
}

/// Memory that is lent comes back once, of writes that are done and of one that is refused.
int use_lent(const char* address, const std::string& table) {
  auto client = skua::PolledClient::create({{"control-address", address}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  const std::string large(100'000, 'x');
  int releases = 0;
  int answered = 0;
  skua::Status failed;
  const auto count = [&](const skua::Reply& reply) {
    ++answered;
    if (!reply.ok()) failed = reply.status();
  };
  const skua::Lent lent = {large, count_release, &releases};
  if (auto accepted = client->put_lend(table, "lent", lent, {}, count); !accepted) return fail("put_lend", accepted);
  const auto poll_until = [&](int releases_wanted, int answers_wanted) {
    while (releases < releases_wanted || answered < answers_wanted) {
      if (!client->poll(std::chrono::milliseconds(100))) return false;
    }
    return true;
  };
  if (!poll_until(1, 1)) return fail("poll", failed);
  if (auto accepted = client->append_lend(table, "lent", lent, {}, count); !accepted)
    return fail("append_lend", accepted);
  if (!poll_until(2, 2)) return fail("poll", failed);
  const skua::Status refused = client->put_lend(table, "", lent, {}, count);
  if (refused.code() != SKUA_INVALID_ARGUMENT || releases != 3 || answered != 2 || !failed) return fail("lent", failed);
  std::string read;
  const auto take = [&](const skua::Reply& reply) {
    read = reply.bytes();
    ++answered;
  };
  if (auto accepted = client->get(table, "lent", {}, take); !accepted) return fail("get", accepted);
  if (!poll_until(3, 3) || read != large + large) return fail("what was lent", failed);
  return 0;
}

/// Each operation of a polled client, and its threads.
int use_polled_elsewhere(const char* address, const std::string& table) {
  auto client = skua::PolledClient::create({{"control-address", address}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  int answered = 0;
  skua::Status failed;
  const auto count = [&](const skua::Reply& reply) {
    ++answered;
    if (!reply.ok()) failed = reply.status();
    if (client->close()) failed = skua::Status(SKUA_INTERNAL, "closed in a callback");
  };
  skua::Batch batch;
  batch.add("pn", 1);
  const auto submit = [&](int operation) {
    switch (operation) {
      case 0: return client->add(table, "pn", 4, {}, count);
      case 1: return client->append(table, "pn", "1", {}, count);
      case 2: return client->expire(table, "pn", std::chrono::hours(1), {}, count);
      case 3: return client->batch(table, batch, {}, count);
      case 4: return client->multi_get(table, {"pn", "nobody"}, {}, count);
      case 5: return client->scan(table, {}, {}, count);
      default: return client->remove(table, "pn", {}, count);
    }
  };
  for (int operation = 0; operation < 7; ++operation) {
    if (const skua::Status accepted = submit(operation); !accepted) return fail("submit", accepted);
    while (answered <= operation) {
      if (const skua::Status polled = client->poll(std::chrono::milliseconds(100)); !polled)
        return fail("poll", polled);
    }
    if (!failed) return fail("a polled operation", failed);
  }
  int refusals = 0;
  std::thread([&] {
    refusals += !client->poll() + !client->close() + !client->end_wait();
    if (!client->adopt_thread() || !client->poll()) refusals = -1;
  }).join();
  refusals += !client->poll();
  if (!client->adopt_thread() || !client->close() || refusals != 4) return fail("threads", failed);
  const skua::Status closed = client->get(table, "pn", {}, count);
  return closed.code() == SKUA_INVALID_ARGUMENT ? 0 : fail("a closed client", closed);
}

/// A zero inside of a name does not cut the name.
int use_zeros(const char* address, const std::string& table) {
  const std::string cut("timeout\0x", 9);
  if (skua::Client::create({{cut, "60s"}}) || skua::Client::create({{"cert", cut}})) return fail("an option", {});
  auto client = skua::Client::create({{"control-address", address}, {"timeout", "60s"}});
  if (!client) return fail("create", client.status());
  const auto refused = client->put(table + std::string("\0x", 2), "zero", "");
  return refused.status().code() == SKUA_INVALID_ARGUMENT ? 0 : fail("a table's name", refused.status());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int failed = use_blocking(argv[1], argv[2]) + use_polled(argv[1], argv[2]) +
                     use_polled_elsewhere(argv[1], argv[2]) + use_lent(argv[1], argv[2]) + use_zeros(argv[1], argv[2]);
  if (failed == 0) std::puts("ok");
  return failed;
}
