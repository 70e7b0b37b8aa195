#include "kvstore/service/read_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec/row.h"
#include "kvstore/service/service_limits.h"
#include "kvstore/storage/shard_life.h"
#include "tests/kvstore/node/server_testing.h"
#include "tests/kvstore/service/shard_server_fixture.h"
#include "tests/kvstore/shard/engine_testing.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using testing::Answer;
using testing::encoded_get;
using testing::encoded_multi_get;
using testing::encoded_mutation;
using testing::encoded_put;
using testing::encoded_scan;
using testing::kEpoch;
using testing::kRevision;
using testing::kRoute;
using testing::kShard;
using testing::LargeValuesServerTest;
using testing::RocksdbServerTest;

GetReply get_reply(const Answer& answer) {
  const auto reply = decode_get_reply(as_byte_span(answer.bytes));
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? *reply : GetReply{};
}

TEST_F(RocksdbServerTest, Get_TellsVersionEpochAndRevision) {
  const ReplyHead written = put("key", "value").head();
  const Answer answer = get("key");
  EXPECT_EQ(answer.value(), "value");
  EXPECT_EQ(answer.head().version, written.version);
  EXPECT_EQ(answer.head().epoch, kEpoch);
  EXPECT_EQ(answer.head().map_revision, kRevision);
}

TEST_F(RocksdbServerTest, Get_NotFound) {
  EXPECT_EQ(get("nothing").status(), KvStatus::kNotFound);
}

TEST_F(RocksdbServerTest, Get_ValuesOfEverySize) {
  // Around what is copied, and what is kept in memory.
  for (const size_t size : std::initializer_list<size_t>{0, 1, 223, 224, 225, 4096, 16383, 16384, 16385, 65535, 70000,
                                                         260000, 270000, 1 << 20}) {
    const std::string value(size, static_cast<char>('a' + size % 26));
    ASSERT_EQ(put("key", value).status(), KvStatus::kOk);
    EXPECT_EQ(get("key").value(), value) << size;
    serve_again();
    EXPECT_EQ(get("key").value(), value) << size << " from the disk";
    EXPECT_EQ(get("key").value(), value) << size;
  }
}

TEST_F(RocksdbServerTest, MultiGet_KeepsTheOrderOfTheKeys) {
  ASSERT_EQ(put("a", "1").status(), KvStatus::kOk);
  ASSERT_EQ(put("b", std::string(300, '2')).status(), KvStatus::kOk);
  const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"b", "none", "a", "b"}));
  ASSERT_TRUE(answer.rpc.ok());
  auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  std::vector<std::string> seen;
  while (const auto entry = reply->entries.next()) {
    seen.push_back(entry->status == KvStatus::kOk ? std::string(as_string_view(entry->value))
                                                  : status_name(entry->status));
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(std::string(300, '2'), "NOT_FOUND", "1", std::string(300, '2')));
}

TEST_F(LargeValuesServerTest, MultiGet_LeavesOutWhatGoesOverTheLimit) {
  const std::string half(kBatchBytesMax / 2, 'h');
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(key, half).status(), KvStatus::kOk);
  ASSERT_EQ(put("small", "s").status(), KvStatus::kOk);
  const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"a", "b", "c", "small"}));
  auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->entries.next()->value.size(), half.size());
  EXPECT_EQ(reply->entries.next()->value.size(), half.size());
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kResourceExhausted);
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kResourceExhausted);
}

TEST_F(LargeValuesServerTest, MultiGet_FromTheDisk_LeavesOutWhatIsBehindTheLimit) {
  const std::string half(kBatchBytesMax / 2, 'h');
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(key, half).status(), KvStatus::kOk);
  serve_again();
  const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"before", "a", "b", "c", "behind"}));
  auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kNotFound);
  EXPECT_EQ(reply->entries.next()->value.size(), half.size());
  EXPECT_EQ(reply->entries.next()->value.size(), half.size());
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kResourceExhausted);
  EXPECT_EQ(reply->entries.next()->status, KvStatus::kResourceExhausted) << "nobody has looked";
  world_->wait_for([&] { return get("c").value() == half; });  // alone, as soon as the first reply is released
  EXPECT_EQ(get("behind").status(), KvStatus::kNotFound);
}

TEST_F(RocksdbServerTest, Scan_PageByPage) {
  std::map<std::string, std::string> twin;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(100 + i);
    twin[key] = std::string(static_cast<size_t>(i), 'x');
    world_->send(Method::kPut, encoded_put(kRoute, key, twin[key]));
  }
  world_->wait_for_answers();
  std::map<std::string, std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const Answer answer = world_->ask(Method::kScan, encoded_scan({.route = kRoute,
                                                                   .start_key = "key110",
                                                                   .end_key = "key190",
                                                                   .rows_max = 17,
                                                                   .bytes_max = 100'000,
                                                                   .resume_token = token}));
    ASSERT_TRUE(answer.rpc.ok()) << answer.rpc;
    auto reply = decode_scan_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    while (const auto row = reply->rows.next()) {
      seen[std::string(row->key)] = as_string_view(row->value);
    }
    token = reply->has_more ? std::string(reply->resume_token) : std::string();
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 5);
  EXPECT_EQ(seen, (std::map<std::string, std::string>(twin.find("key110"), twin.find("key190"))));
}

TEST_F(RocksdbServerTest, Scan_RefusesAForeignToken) {
  const Answer answer = world_->ask(
      Method::kScan, encoded_scan({.route = kRoute, .rows_max = 1, .bytes_max = 1, .resume_token = "made up"}));
  EXPECT_EQ(answer.status(), KvStatus::kInvalidArgument);
}

TEST_F(RocksdbServerTest, Get_TellsWhatIsLeftOfItsTime) {
  HeadBuffer head;
  for (const size_t size : {size_t{3}, size_t{214}, size_t{1000}}) {
    const std::string value(size, 'v');
    world_->ask(Method::kPut, encoded_mutation({kRoute, mutations::put("key", as_byte_span(value), {}, 100)}));
    GetRequest request{kRoute, "key"};
    request.wishes.ttl = true;
    const std::string with_ttl(as_string_view(encode_get(request, head).value()));
    world_->set_time(testing::g_unix_ms + 40);
    EXPECT_EQ(get_reply(world_->ask(Method::kGet, with_ttl)).ttl_ms, 60u);
    EXPECT_EQ(get("key").value(), value);
    serve_again();
    EXPECT_EQ(get_reply(world_->ask(Method::kGet, with_ttl)).ttl_ms, 60u) << "from the disk";
    world_->set_time(testing::g_unix_ms + 60);
    EXPECT_EQ(get("key").status(), KvStatus::kNotFound);
    serve_again();
    EXPECT_EQ(get("key").status(), KvStatus::kNotFound);
    const std::vector<std::string_view> keys = {"key"};
    const Answer page = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, keys));
    auto entries = decode_multi_get_reply(as_byte_span(page.bytes)).value().entries;
    EXPECT_EQ(entries.next()->status, KvStatus::kNotFound);
  }
}

TEST_F(RocksdbServerTest, Get_TellsTheSizeOfAValueWithoutTheValue) {
  HeadBuffer head;
  for (const size_t size : {size_t{0}, size_t{3}, size_t{214}, size_t{1000}, size_t{100'000}}) {
    const std::string value(size, 'v');
    world_->ask(Method::kPut, encoded_mutation({kRoute, mutations::put("key", as_byte_span(value), {}, 100)}));
    GetRequest request{kRoute, "key"};
    request.wishes = {.ttl = true, .mark = false, .size_only = true};
    const std::string asked(as_string_view(encode_get(request, head).value()));
    const auto check = [&](std::string_view from) {
      const Answer answer = world_->ask(Method::kGet, asked);
      const GetReply reply = get_reply(answer);
      EXPECT_TRUE(reply.size_only) << from;
      EXPECT_EQ(reply.value_bytes, size) << from;
      EXPECT_EQ(reply.ttl_ms, 100u) << from;
      EXPECT_LT(answer.bytes.size(), 64u) << from;
    };
    check("from memory");
    serve_again();
    check("from the disk");
  }
}

std::string encoded_get_fields(std::string_view key, const std::vector<std::string_view>& names, GetWishes wishes) {
  std::string encoded;
  EXPECT_TRUE(encode_field_names(names, encoded).ok());
  wishes.fields = true;
  GetRequest request{kRoute, key, 0, wishes};
  request.fields = StringList(as_byte_span(encoded), names.size());
  HeadBuffer head;
  return std::string(as_string_view(encode_get(request, head).value())) + encoded;
}

TEST_F(RocksdbServerTest, Get_OfFields_HasOnlyThese) {
  const std::string asked = encoded_get_fields("key", {"small", "none", "large"}, {.ttl = true, .mark = true});
  // The reply's value is sent in each of the ways that there are: side by side in the row or not, most of it or not.
  for (const size_t size : {size_t{0}, size_t{150}, size_t{1000}, size_t{20'000}, size_t{100'000}})
    for (const bool is_one_part : {true, false})
      for (const size_t other_size : {size_t{10}, size_t{200'000}}) {
        std::string small;
        append_field(small, {"small", as_byte_span("s")});
        std::string large;
        append_field(large, {"large", as_byte_span(std::string(size, 'l'))});
        std::string other;
        append_field(other, {"other", as_byte_span(std::string(other_size, 'o'))});
        const std::string expected = small + large;
        const std::string row = is_one_part ? other + expected : small + other + large;
        Mutation put = mutations::put("key", as_byte_span(row), {}, 100);
        put.mark = {.tag = 7, .row = true};
        world_->ask(Method::kPut, encoded_mutation({kRoute, put}));
        const auto check = [&](std::string_view from) {
          const Answer answer = world_->ask(Method::kGet, asked);
          const GetReply reply = get_reply(answer);
          EXPECT_TRUE(as_string_view(reply.value) == expected) << from << size << is_one_part << other_size;
          EXPECT_EQ(reply.ttl_ms, 100u) << from;
          EXPECT_EQ(reply.mark, put.mark) << from;
          EXPECT_NE(reply.head.version, 0u) << from;
        };
        check("from memory");
        serve_again();
        check("from the disk");
      }
}

TEST_F(RocksdbServerTest, Get_OfFields_OfNone_IsARowWithoutFields) {
  const std::string asked = encoded_get_fields("key", {"none"}, {});
  std::string row;
  append_field(row, {"field", as_byte_span(std::string(1000, 'v'))});
  put("key", row);
  for (const char* from : {"from memory", "from the disk"}) {
    const Answer answer = world_->ask(Method::kGet, asked);
    EXPECT_EQ(answer.status(), KvStatus::kOk) << from;
    EXPECT_EQ(get_reply(answer).value.size(), 0u) << from;
    serve_again();
  }
}

TEST_F(RocksdbServerTest, Get_OfFields_OfWhatIsNoRow) {
  const std::string asked = encoded_get_fields("key", {"field"}, {});
  EXPECT_EQ(world_->ask(Method::kGet, asked).status(), KvStatus::kNotFound);
  put("key", "no row");
  EXPECT_EQ(world_->ask(Method::kGet, asked).status(), KvStatus::kNotARow) << "from memory";
  serve_again();
  EXPECT_EQ(world_->ask(Method::kGet, asked).status(), KvStatus::kNotARow) << "from the disk";
}

TEST_F(RocksdbServerTest, Reads_TellMarksIfTheyAreAskedFor) {
  HeadBuffer head;
  const std::vector<std::string_view> keys = {"key", "none", "plain"};
  put("plain", "p");
  for (const size_t size : {size_t{3}, size_t{212}, size_t{1000}, size_t{20'000}}) {
    const std::string value(size, 'v');
    Mutation put = mutations::put("key", as_byte_span(value), {}, 100);
    put.mark.tag = 0xfeedf00d;
    world_->ask(Method::kPut, encoded_mutation({kRoute, put}));
    GetRequest request{kRoute, "key"};
    request.wishes.ttl = true;
    request.wishes.mark = true;
    const std::string with_both(as_string_view(encode_get(request, head).value()));
    const auto check = [&] {
      const Answer answer = world_->ask(Method::kGet, with_both);
      const GetReply reply = get_reply(answer);
      EXPECT_EQ(reply.mark, (RecordMark{0xfeedf00d, false})) << size;
      EXPECT_EQ(reply.ttl_ms, 100u) << size;
      EXPECT_EQ(as_string_view(reply.value), value) << size;
      EXPECT_EQ(get("key").value(), value);
      std::vector<std::byte> buffer(1000);
      const std::string many(as_string_view(encode_multi_get(kRoute, keys, buffer, {.marks = true}).value()));
      const Answer page = world_->ask(Method::kMultiGet, many);
      auto entries = decode_multi_get_reply(as_byte_span(page.bytes)).value().entries;
      const auto first = entries.next();
      EXPECT_EQ(first->mark.tag, 0xfeedf00d);
      EXPECT_EQ(as_string_view(first->value), value);
      EXPECT_EQ(entries.next()->status, KvStatus::kNotFound);
      EXPECT_TRUE(entries.next()->mark.empty());
      const std::string scan(as_string_view(encode_scan({kRoute, "", "", 10, 100'000, "", true}, buffer).value()));
      const Answer rows = world_->ask(Method::kScan, scan);
      auto walk = decode_scan_reply(as_byte_span(rows.bytes)).value().rows;
      EXPECT_EQ(walk.next()->mark.tag, 0xfeedf00d);
      EXPECT_TRUE(walk.next()->mark.empty());
      ScanRequest keys_only{.route = kRoute, .rows_max = 10, .bytes_max = 100, .keys_only = true};
      const std::string wants_keys(as_string_view(encode_scan(keys_only, buffer).value()));
      const Answer bare = world_->ask(Method::kScan, wants_keys);
      auto bare_rows = decode_scan_reply(as_byte_span(bare.bytes)).value().rows;
      ASSERT_EQ(bare_rows.size(), 2u);
      EXPECT_TRUE(bare_rows.next()->value.empty());
      ScanRequest counts{.route = kRoute, .rows_max = 1, .bytes_max = 1, .count_only = true};
      const std::string wants_count(as_string_view(encode_scan(counts, buffer).value()));
      const Answer count = world_->ask(Method::kScan, wants_count);
      const auto counted = decode_scan_reply(as_byte_span(count.bytes)).value();
      EXPECT_EQ(counted.counted, 1u);
      EXPECT_TRUE(counted.has_more);
    };
    check();
    serve_again();
    check();
  }
}

TEST_F(RocksdbServerTest, MultiGetOfWhatMemoryHas_WaitsForNoDisk) {
  const std::string large(kMultiGetPollingBytesMax / 2 + 1, 'l');
  put("a", "1");
  put("large", large);
  put("larger", large);
  const std::vector<std::string_view> keys = {"a", "large", "larger", "none"};
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  const auto statuses = [&](bool memory_only) {
    const std::string request(
        as_string_view(encode_multi_get(kRoute, keys, buffer, {.memory_only = memory_only}).value()));
    const Answer page = world_->ask(Method::kMultiGet, request);
    std::vector<KvStatus> statuses;
    for (auto entries = decode_multi_get_reply(as_byte_span(page.bytes)).value().entries;
         const auto entry = entries.next();) {
      statuses.push_back(entry->status);
    }
    return statuses;
  };
  constexpr KvStatus kLeftOut = KvStatus::kResourceExhausted;
  // What memory never had may be in the database.
  EXPECT_THAT(statuses(true), ::testing::ElementsAre(KvStatus::kOk, KvStatus::kOk, kLeftOut, kLeftOut));
  serve_again();
  EXPECT_THAT(statuses(true), ::testing::ElementsAre(kLeftOut, kLeftOut, kLeftOut, kLeftOut));
  EXPECT_THAT(statuses(false),
              ::testing::ElementsAre(KvStatus::kOk, KvStatus::kOk, KvStatus::kOk, KvStatus::kNotFound));
  EXPECT_THAT(statuses(true), ::testing::ElementsAre(KvStatus::kOk, KvStatus::kOk, kLeftOut, kLeftOut));
}

TEST_F(RocksdbServerTest, Get_BehindATokenIsTold) {
  const uint64_t index = put("key", "value").head().index;
  EXPECT_EQ(index, 1u);
  HeadBuffer head;
  GetRequest request{kRoute, "key"};
  request.at_least_index = index;
  EXPECT_EQ(world_->ask(Method::kGet, as_string_view(encode_get(request, head).value())).value(), "value");
  request.at_least_index = index + 1;
  EXPECT_EQ(world_->ask(Method::kGet, as_string_view(encode_get(request, head).value())).status(),
            KvStatus::kBehindToken);
}

TEST_F(RocksdbServerTest, Get_OfAStateThatWasLostIsTold) {
  put("key", "value");
  world_->server().shards().remove(kShard, [&] { db_.reset(); });
  world_->wait_for([&] { return db_ == nullptr; });
  for (int life = 0; life < 2; ++life) {
    db_.reset();
    db_ = engine_->open_db(directory_.path(), kShard).value();
    ASSERT_TRUE(begin_life(*db_).ok());
  }
  world_->server().shards().expect(kShard, kEpoch);
  world_->server().shards().serve(kShard, *db_);
  const auto status_at = [&](uint64_t index) {
    HeadBuffer head;
    GetRequest request{kRoute, "key"};
    request.at_least_index = index;
    return world_->ask(Method::kGet, as_string_view(encode_get(request, head).value())).status();
  };
  EXPECT_EQ(status_at(1), KvStatus::kOk);
  EXPECT_EQ(status_at(2), KvStatus::kBehindToken) << "of a write that may have been answered and is not there";
  EXPECT_EQ(status_at(kIndexStep + 1), KvStatus::kOk);
  EXPECT_EQ(put("key", "other").head().index, kIndexStep + 2);
}

TEST_F(RocksdbServerTest, Get_FromDiskThroughTheReaders) {
  for (int i = 0; i < 50; ++i) {
    world_->send(Method::kPut,
                 encoded_put(kRoute, "key" + std::to_string(i), std::string(100'000, static_cast<char>('a' + i % 26))));
  }
  world_->wait_for_answers();
  serve_again();
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 100; ++i) {
    answers.push_back(world_->send(Method::kGet, encoded_get(kRoute, "key" + std::to_string(i % 50))));
  }
  world_->wait_for_answers();
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]->value(), std::string(100'000, static_cast<char>('a' + i % 50 % 26)));
  }
  const WorkerStats stats = world_->server().stats();
  EXPECT_GE(stats.requests.reads_deferred, 50u);
  EXPECT_EQ(stats.storage.fetches, 50u) << "misses of one key share a read";
}

TEST_F(RocksdbServerTest, Get_ManyInOneBurstGetTheirOwnAnswers) {
  const auto value_of = [](int i) { return std::string(i % 3 == 0 ? 5000 : 10, static_cast<char>('a' + i % 26)); };
  for (int i = 0; i < 40; i += 2) ASSERT_EQ(put("key" + std::to_string(i), value_of(i)).status(), KvStatus::kOk);
  Route stale = kRoute;
  stale.epoch += 1;
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "key" + std::to_string(i);
    answers.push_back(world_->send(Method::kGet, i % 7 == 0 ? encoded_get(stale, key) : encoded_get(kRoute, key)));
  }
  world_->wait_for_answers();
  for (int i = 0; i < 40; ++i) {
    const Answer& answer = *answers[static_cast<size_t>(i)];
    if (i % 7 == 0) {
      EXPECT_EQ(answer.status(), KvStatus::kWrongShard) << i;
    } else if (i % 2 == 1) {
      EXPECT_EQ(answer.status(), KvStatus::kNotFound) << i;
    } else {
      EXPECT_EQ(answer.value(), value_of(i)) << i;
    }
  }
}

TEST_F(RocksdbServerTest, MultiGet_PartlyFromTheDisk) {
  for (const char* key : {"a", "b", "c"}) ASSERT_EQ(put(key, std::string(5000, *key)).status(), KvStatus::kOk);
  serve_again();
  EXPECT_EQ(get("b").value(), std::string(5000, 'b'));
  for (int round = 0; round < 2; ++round) {
    const Answer answer = world_->ask(Method::kMultiGet, encoded_multi_get(kRoute, {"a", "none", "b", "c"}));
    auto reply = decode_multi_get_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(as_string_view(reply->entries.next()->value), std::string(5000, 'a'));
    EXPECT_EQ(reply->entries.next()->status, KvStatus::kNotFound);
    EXPECT_EQ(as_string_view(reply->entries.next()->value), std::string(5000, 'b'));
    EXPECT_EQ(as_string_view(reply->entries.next()->value), std::string(5000, 'c'));
  }
}

TEST_F(RocksdbServerTest, Scan_ShowsEveryWriteThatWasAnswered) {
  for (int i = 0; i < 30; ++i) {
    const std::string value = "value " + std::to_string(i);
    ASSERT_EQ(put("key", value).status(), KvStatus::kOk);
    const Answer answer = world_->ask(Method::kScan, encoded_scan({.route = kRoute, .rows_max = 9, .bytes_max = 999}));
    auto reply = decode_scan_reply(as_byte_span(answer.bytes));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(as_string_view(reply->rows.next()->value), value);
  }
}

}  // namespace
}  // namespace skua::kv
