#include "kvstore/codec/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/codec/row.h"
#include "tests/kvstore/codec/codec_testing.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using Kind = Mutation::Kind;

constexpr Route kRoute = {1, 2, 3, 4};

std::string encoded(const BatchRequest& request) {
  HeadBuffer head;
  return joined(encode_batch_head(request, head).value(), request.ops.bytes());
}

/// A batch of valid operations with random contents.
std::string random_batch(Rng& rng) {
  BatchOpsBuilder builder;
  for (uint64_t i = rng.between(1, 8); i > 0; --i) {
    const std::string key = random_text(rng, rng.between(1, 30));
    const std::string value = random_text(rng, rng.below(60));
    std::string fields;
    append_field(fields, {"name", as_byte_span(value)});
    Mutation op{.kind = static_cast<Kind>(rng.between(1, 7)), .key = key};
    if (op.kind == Kind::kCheck || rng.chance(0.4)) op.condition = Condition::if_version(rng.next());
    if (op.kind == Kind::kPut || op.kind == Kind::kAppend) op.value = as_byte_span(value);
    if (op.kind == Kind::kPut && rng.chance(0.5)) op.mark.tag = random_mark(rng).tag;
    if (op.kind == Kind::kPatch) op.mark.row = rng.chance(0.5);
    const bool has_ttl = op.kind == Kind::kExpire || (op.kind == Kind::kPut && rng.chance(0.5));
    if (has_ttl) op.ttl_ms = rng.below(kTtlMsMax);
    if (op.kind == Kind::kPatch) op.value = as_byte_span(fields);
    if (op.kind == Kind::kPatch) op.create_if_missing = rng.chance(0.5);
    if (op.kind == Kind::kAdd) op.delta = static_cast<int64_t>(rng.next());
    EXPECT_TRUE(builder.add(op).ok());
  }
  const uint64_t seq = rng.between(1, 1000);
  return encoded({{rng.chance(0.5) ? 1U : 7U, 2, rng.next(), rng.next()},
                  builder.ops(),
                  {rng.between(1, UINT64_MAX), seq, rng.below(seq)},
                  static_cast<Durability>(rng.below(4))});
}

std::string random_batch_reply(Rng& rng) {
  std::vector<MutationResult> entries(rng.between(1, 8));
  for (MutationResult& entry : entries) {
    entry = {static_cast<KvStatus>(rng.below(256)), rng.next(), static_cast<int64_t>(rng.next())};
  }
  BatchReply reply;
  reply.head = {KvStatus::kOk, rng.next(), rng.next(), rng.next(), rng.next(), {}};
  reply.applied = rng.chance(0.5);
  reply.from_record = rng.chance(0.5);
  if (reply.applied) reply.durability = static_cast<Durability>(rng.between(1, 3));
  std::vector<std::byte> buffer(batch_reply_bytes(entries.size()));
  return std::string(as_string_view(encode_batch_reply(reply, entries, buffer)));
}

TEST(BatchTest, Request_GoldenBytes) {
  BatchOpsBuilder builder;
  ASSERT_TRUE(builder.add({.kind = Kind::kPut, .key = "k", .value = as_byte_span("val"), .ttl_ms = 0x0102}).ok());
  ASSERT_TRUE(builder.add({.kind = Kind::kAdd, .condition = Condition::if_version(9), .key = "n", .delta = -1}).ok());
  EXPECT_EQ(hex(as_byte_span(encoded({kRoute, builder.ops(), {5, 6, 6}, Durability::kSync}))),
            "01000000020000000300000000000000"
            "0400000000000000"
            "02"
            "30"
            "0000"
            "02000000"
            "0500000000000000"
            "0600000000000000"
            "0600000000000000"
            "0000000000000000"
            "0000000000000000"
            "01"
            "00"
            "00"
            "00"
            "0100"
            "0000"
            "03000000"
            "0000000000000000"
            "0201000000000000"
            "6b"
            "76616c"
            "03"
            "01"
            "00"
            "00"
            "0100"
            "0000"
            "00000000"
            "0900000000000000"
            "ffffffffffffffff"
            "6e");
}

TEST(BatchTest, Reply_GoldenBytes) {
  BatchReply reply;
  reply.head = {KvStatus::kOk, 1, 2, 3, 4, {}};
  const std::vector<MutationResult> entries = {{KvStatus::kOk, 0, 0}, {KvStatus::kVersionMismatch, 8, -1}};
  std::vector<std::byte> buffer(batch_reply_bytes(2));
  EXPECT_EQ(hex(encode_batch_reply(reply, entries, buffer)),
            "02"
            "00"
            "0800"
            "02000000"
            "0100000000000000020000000000000003000000000000000400000000000000"
            "000000000000000000000000000000000000000000000000"
            "21000000000000000800000000000000ffffffffffffffff");
}

TEST(BatchTest, Ops_IterateInOrder) {
  BatchOpsBuilder builder;
  for (int i = 0; i < 5; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(builder.add({.kind = Kind::kAdd, .key = key, .delta = i}).ok());
  }
  const std::string bytes = encoded({kRoute, builder.ops()});
  const BatchRequest request = decode_batch(as_byte_span(bytes)).value();
  int64_t next = 0;
  for (const Mutation& op : request.ops) {
    EXPECT_EQ(op.key, "key" + std::to_string(next));
    EXPECT_EQ(op.delta, next++);
  }
  EXPECT_EQ(next, 5);
}

TEST(BatchTest, Builder_RefusesAndKeepsWhatItHas) {
  BatchOpsBuilder builder;
  ASSERT_TRUE(builder.add({.kind = Kind::kDelete, .key = "k"}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kDelete, .key = ""}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kDelete, .key = "k", .value = as_byte_span("v")}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kDelete, .condition = Condition::if_absent(), .key = "k"}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kAdd, .key = "k", .ttl_ms = 1}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kPut, .key = "k", .delta = 1}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kPut, .create_if_missing = true, .key = "k"}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kPatch, .key = "k"}).ok());
  EXPECT_FALSE(builder.add({.kind = Kind::kCheck, .key = "k"}).ok()) << "a check names a version";
  EXPECT_FALSE(builder.add({.kind = Kind::kCheck, .condition = Condition::if_absent(), .key = "k"}).ok());
  Mutation check = mutations::check("k", 1);
  check.ttl_ms = 1;
  EXPECT_FALSE(builder.add(check).ok());
  check = mutations::check("k", 1);
  check.value = as_byte_span("v");
  EXPECT_FALSE(builder.add(check).ok());
  EXPECT_FALSE(builder.add({.kind = static_cast<Kind>(8), .condition = Condition::if_version(1), .key = "k"}).ok());
  const std::string large(kBatchBytesMax, 'v');
  EXPECT_EQ(builder.add({.kind = Kind::kPut, .key = "k", .value = as_byte_span(large)}).message(),
            "a BATCH has 16,777,274 bytes; at most 16,777,216 are allowed");
  EXPECT_EQ(builder.size(), 1U);
  while (builder.size() < kBatchOpsMax) ASSERT_TRUE(builder.add({.kind = Kind::kDelete, .key = "k"}).ok());
  EXPECT_EQ(builder.add({.kind = Kind::kDelete, .key = "k"}).message(),
            "a BATCH has 1,025 operations; at most 1,024 are allowed");
  HeadBuffer head;
  EXPECT_TRUE(encode_batch_head({kRoute, builder.ops()}, head).ok());
  builder.clear();
  EXPECT_FALSE(encode_batch_head({kRoute, builder.ops()}, head).ok());
}

TEST(BatchTest, ACheckIsAnOperationOfBatchesOnly) {
  BatchOpsBuilder builder;
  ASSERT_TRUE(builder.add(mutations::check("k", 0)).ok());
  EXPECT_EQ(hex(builder.ops().bytes()),
            "07"
            "01"
            "00"
            "00"
            "0100"
            "0000"
            "00000000"
            "0000000000000000"
            "0000000000000000"
            "6b");
  HeadBuffer head;
  EXPECT_FALSE(encode_mutation_head({kRoute, mutations::check("k", 1)}, head).ok());
}

TEST(BatchTest, RoundTrip_Random) {
  Rng rng(9);
  for (int round = 0; round < 500; ++round) {
    const std::string request = random_batch(rng);
    ASSERT_EQ(recode_batch(as_byte_span(request)), request);
    const std::string reply = random_batch_reply(rng);
    ASSERT_EQ(recode_batch_reply(as_byte_span(reply)), reply);
  }
}

TEST(BatchTest, Decode_TruncatedAtEachByteOrWithOneMore) {
  Rng rng(10);
  const std::string request = random_batch(rng);
  const std::string reply = random_batch_reply(rng);
  for (size_t size = 0; size < request.size(); ++size) {
    ASSERT_FALSE(recode_batch(as_byte_span(request).first(size))) << size << " of " << request.size();
  }
  for (size_t size = 0; size < reply.size(); ++size) {
    ASSERT_FALSE(recode_batch_reply(as_byte_span(reply).first(size))) << size << " of " << reply.size();
  }
  EXPECT_FALSE(recode_batch(as_byte_span(request + '\0')));
  EXPECT_FALSE(recode_batch_reply(as_byte_span(reply + '\0')));
}

TEST(BatchTest, Decode_FlippedBitsAreRefusedOrMeanSomethingElse) {
  Rng rng(11);
  for (int round = 0; round < 5000; ++round) {
    std::string request = random_batch(rng);
    request[rng.below(request.size())] ^= static_cast<char>(1 << rng.below(8));
    if (const auto again = recode_batch(as_byte_span(request))) {
      ASSERT_EQ(*again, request);
    }
    std::string reply = random_batch_reply(rng);
    reply[rng.below(reply.size())] ^= static_cast<char>(1 << rng.below(8));
    if (const auto again = recode_batch_reply(as_byte_span(reply))) {
      ASSERT_EQ(*again, reply);
    }
  }
}

}  // namespace
}  // namespace skua::kv
