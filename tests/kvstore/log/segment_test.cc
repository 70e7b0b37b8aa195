#include "kvstore/log/segment.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace skua::kv {
namespace {

using Event = SegmentReader::Event;

SegmentHeader test_header() {
  SegmentHeader header;
  header.identity.cluster_id.fill(std::byte{0xc1});
  header.identity.node_id.fill(std::byte{0xd2});
  header.identity.log_number = 3;
  header.sequence = 9;
  header.first_group = 40;
  header.segment_bytes = 8 * kPageBytes;
  header.shards = {{1, 10, 2}, {7, 0, 1}};
  return header;
}

/// A segment built group by group: one record each, of 600 bytes, so that a group takes two sectors.
class Builder {
 public:
  Builder() : header_(test_header()) {
    std::vector<std::byte> head;
    encode_segment_header(header_, head);
    bytes_ = head;
    bytes_.resize(header_.segment_bytes);
    offset_ = head.size();
  }

  void add(uint64_t number, uint64_t synced, LogShard shard = 1, uint32_t flags = GroupHeader::kSync) {
    const uint32_t seed = segment_seed(header_.identity, header_.sequence);
    std::byte* group = bytes_.data() + offset_;
    std::byte* record = group + kGroupHeaderBytes;
    encode_record_header({shard, number, 2, 0, RecordKind::kData, Durability::kSync, 0}, 600, record);
    const auto bytes = static_cast<uint32_t>(kGroupHeaderBytes + seal_record(record, seed));
    encode_group_header({bytes, 1, number, synced, shard_bit(shard), previous_, flags}, seed, group);
    previous_ = shard_bit(shard);
    starts_.push_back(offset_);
    offset_ += round_up(bytes, kSectorBytes);
  }

  /// `byte` counts from the group's beginning.
  void damage(size_t group, size_t byte) { bytes_[starts_[group] + byte] ^= std::byte{0x10}; }
  [[nodiscard]] uint64_t start(size_t group) const { return starts_[group]; }

  [[nodiscard]] SegmentReader reader(std::optional<uint64_t> next_first_group = std::nullopt) const {
    return {bytes_, header_, next_first_group};
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  const SegmentHeader header_;
  std::vector<std::byte> bytes_;
  std::vector<uint64_t> starts_;
  uint64_t offset_ = 0;
  uint64_t previous_ = 0;
};

TEST(SegmentName, RoundTrip) {
  EXPECT_EQ(segment_name(0x1f), "segment-000000000000001f.log");
  EXPECT_EQ(parse_segment_name("segment-000000000000001f.log"), 0x1fU);
  EXPECT_EQ(parse_spare_name(spare_name(5)), 5U);
  EXPECT_FALSE(parse_segment_name("segment-1f.log"));
  EXPECT_FALSE(parse_segment_name("segment-000000000000001g.log"));
  EXPECT_FALSE(parse_segment_name("segment-000000000000001F.log"));  // another file than the one above
  EXPECT_FALSE(parse_segment_name(spare_name(5)));
}

TEST(SegmentSeed, DiffersFromSequenceToSequence) {
  std::set<uint32_t> seeds;
  for (uint64_t sequence = 0; sequence < 10000; ++sequence) seeds.insert(segment_seed({}, sequence));
  EXPECT_EQ(seeds.size(), 10000U);
}

TEST(EncodeSegmentHeader, GoldenBytes) {
  std::vector<std::byte> bytes;
  encode_segment_header(test_header(), bytes);
  ASSERT_EQ(bytes.size(), kPageBytes);
  EXPECT_EQ(load_le<uint32_t>(bytes.data() + 4), 88U + 48U);
  EXPECT_EQ(as_string_view(ByteSpan(bytes).subspan(8, 8)), "SKUALOG\n");
  EXPECT_EQ(load_le<uint32_t>(bytes.data() + 16), 1U);
  EXPECT_EQ(load_le<uint32_t>(bytes.data() + 20), 3U);
  EXPECT_EQ(bytes[24], std::byte{0xc1});
  EXPECT_EQ(bytes[40], std::byte{0xd2});
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 56), 9U);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 64), 40U);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 72), 8 * kPageBytes);
  EXPECT_EQ(load_le<uint32_t>(bytes.data() + 80), 2U);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 88), 1U);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 96), 10U);
  EXPECT_EQ(load_le<uint64_t>(bytes.data() + 104), 2U);
}

TEST(DecodeSegmentHeader, RoundTripAndEveryFlippedBit) {
  std::vector<std::byte> bytes;
  encode_segment_header(test_header(), bytes);
  EXPECT_EQ(decode_segment_header(bytes).value(), test_header());
  for (size_t bit = 0; bit < (88 + 48) * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << (bit % 8))};
    EXPECT_TRUE(absl::IsDataLoss(decode_segment_header(bytes).status())) << bit;
    bytes[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << (bit % 8))};
  }
}

TEST(SegmentReader, EmptyIsACleanEnd) {
  const Builder builder;
  SegmentReader reader = builder.reader();
  EXPECT_EQ(reader.next(), Event::kEnd);
  EXPECT_FALSE(reader.tail().torn);
  EXPECT_EQ(reader.next_group(), 40U);
}

TEST(SegmentReader, LastGroupDamagedIsATornTail) {
  for (const size_t byte : {size_t{0}, size_t{4}, size_t{16}, size_t{100}, size_t{700}}) {
    Builder builder;
    builder.add(40, 39);
    builder.add(41, 40);
    builder.damage(1, byte);
    SegmentReader reader = builder.reader();
    EXPECT_EQ(reader.next(), Event::kGroup);
    EXPECT_FALSE(reader.damaged());
    EXPECT_EQ(reader.next(), Event::kEnd) << byte;
    EXPECT_TRUE(reader.tail().torn) << byte;
    EXPECT_EQ(reader.next_group(), 41U);
    EXPECT_EQ(reader.offset(), builder.start(1));
  }
}

TEST(SegmentReader, BelowASyncedPositionIsDamage) {
  Builder builder;
  builder.add(40, 39);
  builder.add(41, 40, 7);
  builder.add(42, 41);
  builder.damage(1, 8);
  SegmentReader reader = builder.reader();
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.next(), Event::kDamage);
  EXPECT_EQ(reader.damage().first_group, 41U);
  EXPECT_EQ(reader.damage().last_group, 41U);
  EXPECT_EQ(reader.damage().shard_bits, shard_bit(7));
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.group().number, 42U);
  EXPECT_EQ(reader.next(), Event::kEnd);
  EXPECT_FALSE(reader.tail().torn);
}

TEST(SegmentReader, UnsyncedGroupsBehindTheTornOneAreCut) {
  Builder builder;
  builder.add(40, 39);
  builder.add(41, 40, 1, 0);
  builder.add(42, 40, 1, 0);
  builder.add(43, 40);
  builder.damage(1, 700);
  SegmentReader reader = builder.reader();
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.next(), Event::kEnd);
  EXPECT_TRUE(reader.tail().torn);
  EXPECT_EQ(reader.tail().groups_cut, 2U);
  EXPECT_EQ(reader.tail().sync_groups_cut, 1U);
}

TEST(SegmentReader, InAnOlderSegmentEverythingIsDamage) {
  Builder builder;
  builder.add(40, 39);
  builder.add(41, 40, 1, 0);
  builder.damage(1, 8);
  SegmentReader reader = builder.reader(42);
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.next(), Event::kDamage);
  EXPECT_EQ(reader.damage().last_group, 41U);
  EXPECT_EQ(reader.next(), Event::kEnd);
}

TEST(SegmentReader, WhatWasCutStaysCut) {
  Builder builder;
  builder.add(40, 39);
  builder.add(41, 40);
  SegmentReader reader = builder.reader(41);
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.next(), Event::kEnd);
}

TEST(SegmentReader, CloseMarkVouchesForAll) {
  Builder builder;
  builder.add(40, 39);
  builder.add(41, 40, 1, GroupHeader::kClosed);
  SegmentReader reader = builder.reader();
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.next(), Event::kGroup);
  EXPECT_EQ(reader.next(), Event::kEnd);
  EXPECT_TRUE(reader.tail().closed);
  builder.damage(0, 700);
  SegmentReader again = builder.reader();
  EXPECT_EQ(again.next(), Event::kGroup);
  EXPECT_TRUE(again.damaged());
}

}  // namespace
}  // namespace skua::kv
