#include "kvstore/codec/reply.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/kvstore/codec/codec_testing.h"

namespace skua::kv {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr ReplyHead kHead = {KvStatus::kOk,      0x1112131415161718, 0x2122232425262728,
                             0x3132333435363738, 0x4142434445464748, {}};
constexpr const char* kHeadHex =
    "1817161514131211"
    "2827262524232221"
    "3837363534333231"
    "4847464544434241";

/// A valid reply of each kind, with random contents.
std::vector<std::pair<Recode, std::string>> random_replies(Rng& rng) {
  ReplyHead head = {KvStatus::kOk, rng.next(), rng.next(), rng.next(), rng.next(), {}};
  const std::string value = random_text(rng, rng.below(300));
  HeadBuffer buffer;
  std::vector<std::pair<Recode, std::string>> all;
  const WriteReply write = {head, static_cast<Durability>(rng.between(1, 3)), rng.chance(0.5)};
  all.emplace_back(recode_write_reply, as_string_view(encode_write_reply(write, buffer)));
  all.emplace_back(recode_add_reply,
                   as_string_view(encode_add_reply({write, static_cast<int64_t>(rng.next())}, buffer)));
  const GetExtras extras = {rng.chance(0.5) ? 0 : rng.next(), random_mark(rng), rng.chance(0.3)};
  all.emplace_back(recode_get_reply, joined(encode_get_reply_head(head, value.size(), buffer, extras),
                                            extras.size_only ? ByteSpan() : as_byte_span(value)));

  std::vector<MultiGetEntry> entries(rng.below(10));
  std::string values;
  for (MultiGetEntry& entry : entries) {
    if (rng.chance(0.3)) {
      entry.status = KvStatus::kNotFound;
      continue;
    }
    entry = {KvStatus::kOk, rng.next(), as_byte_span(value), random_mark(rng)};
    values += value;
  }
  const bool with_marks = rng.chance(0.5);
  std::vector<std::byte> table(multi_get_reply_head_bytes(entries.size(), with_marks));
  all.emplace_back(recode_multi_get_reply,
                   joined(encode_multi_get_reply_head(head, entries, table, with_marks), as_byte_span(values)));

  std::map<std::string, std::string> rows;
  for (uint64_t i = rng.between(1, 10); i > 0; --i) rows[random_text(rng, rng.between(1, 30))] = value;
  ScanReplyBuilder builder(kScanRowsMax, kScanBytesMax, rng.chance(0.5));
  for (const auto& [key, row_value] : rows) {
    EXPECT_TRUE(builder.add({key, rng.next(), as_byte_span(row_value), random_mark(rng)}));
  }
  all.emplace_back(recode_scan_reply, as_string_view(builder.finish(head, rng.chance(0.5))));

  const std::string text = random_text(rng, rng.below(100));
  head.status = static_cast<KvStatus>(rng.between(1, 255));
  head.text = text;
  all.emplace_back(kReplyRecoders[rng.below(std::size(kReplyRecoders))],
                   as_string_view(encode_error_reply(head, buffer)));
  return all;
}

TEST(ReplyTest, Marks_GoldenBytes) {
  HeadBuffer buffer;
  EXPECT_EQ(hex(encode_get_reply_head(kHead, 3, buffer, {.mark = {.tag = 0x01020304, .row = true}})),
            std::string("02"
                        "00"
                        "0200"
                        "03000000") +
                kHeadHex + "0403020101000000");
  const std::vector<MultiGetEntry> entries = {{KvStatus::kNotFound, 0, {}}, {KvStatus::kOk, 1, {}, {7, false}}};
  std::vector<std::byte> table(multi_get_reply_head_bytes(2, true));
  EXPECT_EQ(hex(encode_multi_get_reply_head(kHead, entries, table, true)), std::string("02"
                                                                                       "00"
                                                                                       "0200"
                                                                                       "02000000") +
                                                                               kHeadHex +
                                                                               "05000000000000000000000000000000"
                                                                               "00000000000000000100000000000000"
                                                                               "0000000000000000"
                                                                               "0700000000000000");
  ScanReplyBuilder page(1, 1, true);
  ASSERT_TRUE(page.add({"k", 1, {}, {7, false}}));
  EXPECT_EQ(hex(page.finish(kHead, false)), std::string("02"
                                                        "00"
                                                        "0200"
                                                        "01000000") +
                                                kHeadHex +
                                                "1900000000000000"
                                                "01000000000000000100000000000000"
                                                "0700000000000000"
                                                "6b");
}

TEST(ReplyTest, Scan_ACountHasNoRows) {
  ScanReplyBuilder page(3, 1);
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(page.count({key, 0, {}}));
  EXPECT_FALSE(page.count({"d", 0, {}}));
  const std::string bytes(as_string_view(page.finish(kHead, true)));
  const auto reply = decode_scan_reply(as_byte_span(bytes));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->is_count);
  EXPECT_EQ(reply->counted, 3u);
  EXPECT_EQ(reply->rows.size(), 0u);
  EXPECT_EQ(decode_resume_token(reply->resume_token).value(), "c");
  std::string none = bytes;
  none[4] = 0;
  EXPECT_FALSE(decode_scan_reply(as_byte_span(none)).ok());
  std::string many = bytes;
  store_le(std::as_writable_bytes(std::span(many)).data() + 4, static_cast<uint32_t>(kScanRowsMax));
  EXPECT_TRUE(decode_scan_reply(as_byte_span(many)).ok());
  store_le(std::as_writable_bytes(std::span(many)).data() + 4, static_cast<uint32_t>(kScanRowsMax + 1));
  EXPECT_FALSE(decode_scan_reply(as_byte_span(many)).ok()) << "no page counts so many rows";
  page.reset(3, 1);
  EXPECT_FALSE(decode_scan_reply(page.finish(kHead, false))->is_count);
}

TEST(ReplyTest, Scan_HeadsOfRowsCountForThePage) {
  for (const bool with_marks : {false, true}) {
    const size_t row_bytes = 16 + (with_marks ? kMarkBytes : 0) + 1;
    ScanReplyBuilder page(100, 2 * row_bytes, with_marks);
    EXPECT_TRUE(page.add({"a", 1, {}}));
    EXPECT_TRUE(page.add({"b", 1, {}}));
    EXPECT_FALSE(page.add({"c", 1, {}}));
  }
}

TEST(ReplyTest, Scan_APageWithoutValuesEndsWhenItHasSkippedEnough) {
  const std::string half(kScanReadBytesMax / 2, 'v');
  const std::string whole(kScanReadBytesMax + 1, 'v');
  ScanReplyBuilder page(100, 100);
  EXPECT_TRUE(page.add_key({"a", 1, as_byte_span(half)}));
  EXPECT_TRUE(page.add_key({"b", 1, as_byte_span(half)}));
  EXPECT_FALSE(page.add_key({"c", 1, as_byte_span(std::string_view("v"))}));
  EXPECT_EQ(page.skipped_bytes(), kScanReadBytesMax);
  EXPECT_EQ(decode_resume_token(decode_scan_reply(page.finish(kHead, true))->resume_token).value(), "b");
  page.reset(100, 100);
  EXPECT_TRUE(page.add_key({"a", 1, as_byte_span(whole)})) << "a page has one row at least";
  EXPECT_FALSE(page.add_key({"b", 1, {}}));

  page.reset(100, 1);
  EXPECT_TRUE(page.count({"a", 1, as_byte_span(half)}));
  EXPECT_FALSE(page.count({"b", 1, as_byte_span(half)})) << "the keys count as well";
  EXPECT_EQ(decode_scan_reply(page.finish(kHead, true))->counted, 1u);
  page.reset(100, 1);
  EXPECT_TRUE(page.count({"a", 1, as_byte_span(whole)}));
  EXPECT_FALSE(page.count({"b", 1, {}}));
}

TEST(ReplyTest, Get_RefusesAMarkThatIsNone) {
  HeadBuffer buffer;
  const std::string good(as_string_view(encode_get_reply_head(kHead, 0, buffer, {.mark = {.tag = 1, .row = false}})));
  EXPECT_EQ(decode_get_reply(as_byte_span(good))->mark, (RecordMark{1, false}));
  std::string empty = good;
  empty[kReplyHeaderBytes] = 0;
  EXPECT_FALSE(decode_get_reply(as_byte_span(empty)).ok()) << "an empty mark is not encoded";
  std::string unknown = good;
  unknown[kReplyHeaderBytes + 4] = 2;
  EXPECT_FALSE(decode_get_reply(as_byte_span(unknown)).ok()) << "a flag of later builds";
}

TEST(ReplyTest, Write_GoldenBytes) {
  HeadBuffer buffer;
  EXPECT_EQ(hex(encode_write_reply({kHead, Durability::kSync, false}, buffer)), std::string("02"
                                                                                            "00"
                                                                                            "0300"
                                                                                            "00000000") +
                                                                                    kHeadHex);
  EXPECT_EQ(hex(encode_write_reply({kHead, Durability::kMemory, true}, buffer)), std::string("02"
                                                                                             "00"
                                                                                             "0500"
                                                                                             "00000000") +
                                                                                     kHeadHex);
}

TEST(ReplyTest, Add_GoldenBytes) {
  HeadBuffer buffer;
  EXPECT_EQ(hex(encode_add_reply({{kHead, Durability::kFlush, false}, -1}, buffer)), std::string("02"
                                                                                                 "00"
                                                                                                 "0200"
                                                                                                 "00000000") +
                                                                                         kHeadHex + "ffffffffffffffff");
}

TEST(ReplyTest, Get_WithTimeToLive_GoldenBytes) {
  HeadBuffer buffer;
  EXPECT_EQ(hex(encode_get_reply_head(kHead, 3, buffer, {.ttl_ms = 0x0102, .mark = {}})), std::string("02"
                                                                                                      "00"
                                                                                                      "0100"
                                                                                                      "03000000") +
                                                                                              kHeadHex +
                                                                                              "0201000000000000");
}

TEST(ReplyTest, Get_OfASize_GoldenBytes) {
  HeadBuffer buffer;
  const ByteSpan reply = encode_get_reply_head(kHead, 0x0102, buffer, {.ttl_ms = 0, .mark = {}, .size_only = true});
  EXPECT_EQ(hex(reply), std::string("02"
                                    "00"
                                    "0400"
                                    "02010000") +
                            kHeadHex);
  const GetReply decoded = decode_get_reply(reply).value();
  EXPECT_EQ(decoded.value_bytes, 0x0102u);
  EXPECT_TRUE(decoded.value.empty());
  const std::string with_value = joined(reply, as_byte_span(std::string(0x0102, 'v')));
  EXPECT_FALSE(decode_get_reply(as_byte_span(with_value)).ok());
}

TEST(ReplyTest, Error_GoldenBytes) {
  HeadBuffer buffer;
  ReplyHead head = kHead;
  head.status = KvStatus::kWrongShard;
  head.text = "no";
  EXPECT_EQ(hex(encode_error_reply(head, buffer)), std::string("02"
                                                               "20"
                                                               "0000"
                                                               "02000000") +
                                                       kHeadHex + "6e6f");
}

TEST(ReplyTest, Get_GoldenBytes) {
  HeadBuffer buffer;
  EXPECT_EQ(hex(encode_get_reply_head(kHead, 0x0a0b0c, buffer)), std::string("02"
                                                                             "00"
                                                                             "0000"
                                                                             "0c0b0a00") +
                                                                     kHeadHex);
}

TEST(ReplyTest, MultiGet_GoldenBytes) {
  const std::vector<MultiGetEntry> entries = {{KvStatus::kOk, 0x0102, as_byte_span("xyz")},
                                              {KvStatus::kNotFound, 0, {}}};
  std::vector<std::byte> buffer(multi_get_reply_head_bytes(entries.size()));
  EXPECT_EQ(hex(encode_multi_get_reply_head(kHead, entries, buffer)), std::string("02"
                                                                                  "00"
                                                                                  "0000"
                                                                                  "02000000") +
                                                                          kHeadHex +
                                                                          "00000000"
                                                                          "03000000"
                                                                          "0201000000000000"
                                                                          "05000000"
                                                                          "00000000"
                                                                          "0000000000000000");
}

TEST(ReplyTest, Scan_GoldenBytes) {
  ScanReplyBuilder builder(10, 100);
  ASSERT_TRUE(builder.add({"k1", 0x0102, as_byte_span("v")}));
  EXPECT_EQ(hex(builder.finish(kHead, true)), std::string("02"
                                                          "00"
                                                          "0100"
                                                          "01000000") +
                                                  kHeadHex +
                                                  "13000000"
                                                  "0300"
                                                  "0000"
                                                  "0200"
                                                  "0000"
                                                  "01000000"
                                                  "0201000000000000"
                                                  "6b31"
                                                  "76"
                                                  "01"
                                                  "6b31");
}

TEST(ReplyTest, EncodeErrorReply_CutsTheText) {
  HeadBuffer buffer;
  const std::string text(2000, 't');
  ReplyHead head = kHead;
  head.status = KvStatus::kInternal;
  head.text = text;
  const std::string bytes(as_string_view(encode_error_reply(head, buffer)));
  EXPECT_EQ(decode_get_reply(as_byte_span(bytes)).value().head.text.size(), kErrorTextBytesMax);
}

TEST(ReplyTest, DecodeGetReply_YieldsViewOfTheInput) {
  HeadBuffer buffer;
  const std::string bytes = joined(encode_get_reply_head(kHead, 5, buffer), as_byte_span("value"));
  const GetReply reply = decode_get_reply(as_byte_span(bytes)).value();
  EXPECT_EQ(as_string_view(reply.value), "value");
  EXPECT_EQ(as_string_view(reply.value).data(), bytes.data() + kReplyHeaderBytes);
  EXPECT_EQ(reply.head.version, kHead.version);
  EXPECT_EQ(reply.head.epoch, kHead.epoch);
  EXPECT_EQ(reply.head.map_revision, kHead.map_revision);
}

TEST(ReplyTest, DecodeMultiGetReply_EntriesInOrder) {
  const std::vector<MultiGetEntry> entries = {
      {KvStatus::kOk, 1, as_byte_span("one")}, {KvStatus::kNotFound, 0, {}}, {KvStatus::kOk, 3, as_byte_span("three")}};
  std::vector<std::byte> buffer(multi_get_reply_head_bytes(entries.size()));
  const std::string bytes = joined(encode_multi_get_reply_head(kHead, entries, buffer), as_byte_span("onethree"));
  MultiGetReply reply = decode_multi_get_reply(as_byte_span(bytes)).value();
  ASSERT_EQ(reply.entries.size(), 3U);
  EXPECT_EQ(as_string_view(reply.entries.next()->value), "one");
  EXPECT_EQ(reply.entries.next()->status, KvStatus::kNotFound);
  EXPECT_EQ(as_string_view(reply.entries.next()->value), "three");
  EXPECT_FALSE(reply.entries.next());
}

TEST(ReplyTest, ScanReplyBuilder_KeepsToItsLimits) {
  ScanReplyBuilder by_rows(2, 1000);
  EXPECT_TRUE(by_rows.add({"a", 1, {}}));
  EXPECT_TRUE(by_rows.add({"b", 1, {}}));
  EXPECT_FALSE(by_rows.add({"c", 1, {}}));

  const std::string large(100, 'x');
  ScanReplyBuilder by_bytes(10, 10);
  EXPECT_TRUE(by_bytes.add({"a", 1, as_byte_span(large)})) << "the first row always fits";
  EXPECT_FALSE(by_bytes.add({"b", 1, {}}));
  by_bytes.reset(10, 2 * (16 + 1 + large.size()));
  EXPECT_TRUE(by_bytes.add({"a", 1, as_byte_span(large)}));
  EXPECT_TRUE(by_bytes.add({"b", 2, as_byte_span(large)}));
  EXPECT_FALSE(by_bytes.add({"c", 3, {}}));
  EXPECT_EQ(by_bytes.row_count(), 2U);

  ScanReply reply = decode_scan_reply(by_bytes.finish(kHead, true)).value();
  EXPECT_TRUE(reply.has_more);
  EXPECT_EQ(decode_resume_token(reply.resume_token).value(), "b");
  EXPECT_EQ(reply.rows.next()->key, "a");
  EXPECT_EQ(reply.rows.next()->version, 2U);
  EXPECT_FALSE(reply.rows.next());
}

TEST(ReplyTest, DecodeScanReply_RefusesRowsOutOfOrder) {
  ScanReplyBuilder builder(10, 1000);
  EXPECT_TRUE(builder.add({"b", 1, {}}));
  EXPECT_TRUE(builder.add({"a", 1, {}}));
  EXPECT_EQ(decode_scan_reply(builder.finish(kHead, false)).status().code(), absl::StatusCode::kInternal);
}

TEST(ReplyTest, DecodeResumeToken_RefusesForeignTokens) {
  EXPECT_FALSE(decode_resume_token("").ok());
  EXPECT_FALSE(decode_resume_token("\x01").ok());
  EXPECT_FALSE(decode_resume_token("\x02key").ok());
  EXPECT_FALSE(decode_resume_token("\x01" + std::string(kKeyBytesMax + 1, 'k')).ok());
  EXPECT_EQ(decode_resume_token("\x01key").value(), "key");
}

TEST(ReplyTest, ToStatus_NamesTheOutcome) {
  EXPECT_TRUE(to_status({}).ok());
  EXPECT_EQ(to_status({.status = KvStatus::kNotFound}), absl::NotFoundError("the node gives no reason"));
  EXPECT_EQ(to_status({.status = KvStatus::kVersionMismatch, .text = "now at 7"}),
            absl::FailedPreconditionError("VERSION_MISMATCH: now at 7"));
  // Whoever prints a status prints its code.
  EXPECT_EQ(to_status({.status = KvStatus::kResourceExhausted, .text = "the disk is full"}).ToString(),
            "RESOURCE_EXHAUSTED: the disk is full");
}

TEST(ReplyTest, RoundTrip_RandomReplies) {
  Rng rng(6);
  for (int round = 0; round < 500; ++round) {
    for (const auto& [recode, bytes] : random_replies(rng)) ASSERT_EQ(recode(as_byte_span(bytes)), bytes);
  }
}

TEST(ReplyTest, Decode_TruncatedAtEachByteOrWithOneMore) {
  Rng rng(7);
  for (int round = 0; round < 10; ++round) {
    for (const auto& [recode, bytes] : random_replies(rng)) {
      for (size_t size = 0; size < bytes.size(); ++size) {
        ASSERT_FALSE(recode(as_byte_span(bytes).first(size))) << size << " of " << bytes.size();
      }
      ASSERT_FALSE(recode(as_byte_span(bytes + '\0')));
    }
  }
}

TEST(ReplyTest, Decode_FlippedBitsAreRefusedOrMeanSomethingElse) {
  Rng rng(8);
  for (int round = 0; round < 2000; ++round) {
    for (auto& [recode, bytes] : random_replies(rng)) {
      bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      const auto recoded = recode(as_byte_span(bytes));
      if (recoded) {
        ASSERT_EQ(*recoded, bytes);
      }
    }
  }
}

}  // namespace
}  // namespace skua::kv
