#include "kvstore/replication/message_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/replication/append_builder.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/codec_testing.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

using testing::hex;
using testing::joined;
using testing::plain_append;
using testing::random_append;
using testing::RandomAppend;
using testing::recode_frame;

constexpr ReplicaEnvelope kEnvelope = {.table = 1, .shard = 2, .from = 3, .incarnation = 4};
constexpr const char* kEnvelopeHex =
    "0100000002000000"
    "0300000000000000"
    "0400000000000000";

std::string encoded(const ReplicaMessage& message, const ReplicaEnvelope& envelope = kEnvelope) {
  FrameBuffer buffer;
  return std::string(as_string_view(encode_frame(envelope, message, buffer).value()));
}

View small_view() {
  View view;
  view.epoch = 7;
  view.change = 8;
  view.primary = 5;
  view.members = {{3, 4}, {5, 6}};
  view.learners = {{{9, 10}, 11}};
  view.min_insync = 2;
  view.read_anywhere = true;
  return view;
}

View random_view(Rng& rng) {
  View view;
  view.epoch = rng.next();
  view.change = rng.next();
  view.min_insync = static_cast<uint32_t>(rng.next());
  view.read_anywhere = rng.chance(0.5);
  NodeId node = 0;
  for (uint64_t i = rng.below(kViewMembersMax + 1); i > 0; --i)
    view.members.push_back({node += rng.between(1, 9), rng.next()});
  if (!view.members.empty()) view.primary = view.members[rng.below(view.members.size())].node;
  node = 0;
  for (uint64_t i = rng.below(kViewMembersMax + 1); i > 0; --i) {
    view.learners.push_back({{node += rng.between(1, 9), rng.next()}, rng.next()});
  }
  return view;
}

LogLevels random_levels(Rng& rng) {
  return {rng.next(), rng.next(), rng.next()};
}

EpochHistory random_runs(Rng& rng) {
  EpochHistory runs(EntryId{rng.below(1000), rng.below(10)});
  for (uint64_t i = rng.below(40); i > 0; --i) runs.append(rng.below(1000));
  runs.compact_to(EpochHistory::kRunsMax, UINT64_MAX);
  return runs;
}

/// One of each kind but Append.
std::vector<ReplicaMessage> random_messages(Rng& rng) {
  const auto sent = static_cast<TimeNs>(rng.next());
  return {StartView{random_view(rng)},
          TailReport{rng.next(), random_runs(rng), random_levels(rng), rng.next(), 0},
          AppendReply{rng.next(), random_levels(rng)},
          Heartbeat{rng.next(), sent, rng.next()},
          HeartbeatReply{rng.next(), sent, rng.chance(0.5), random_levels(rng)},
          Confirm{rng.next(), rng.next()},
          ConfirmReply{rng.next(), rng.next()},
          Release{rng.next()},
          SnapshotNeeded{rng.next()},
          StaleEpoch{random_view(rng)},
          Restored{rng.next(), rng.next()}};
}

/// Some of everything, as bytes.
std::vector<std::string> random_frames(Rng& rng) {
  const ReplicaEnvelope envelope = {static_cast<uint32_t>(rng.next()), static_cast<uint32_t>(rng.next()), rng.next(),
                                    rng.next()};
  std::vector<std::string> frames;
  for (const ReplicaMessage& message : random_messages(rng)) frames.push_back(encoded(message, envelope));
  const RandomAppend append = random_append(rng, rng.below(6), 40);
  frames.push_back(plain_append(envelope, append.header, append.entries));
  return frames;
}

TEST(MessageCodecTest, Frame_GoldenBytes) {
  const std::string view =
      "0700000000000000"
      "0800000000000000"
      "0500000000000000"
      "02000000"
      "01"
      "02"
      "01"
      "0300000000000000"
      "0400000000000000"
      "0500000000000000"
      "0600000000000000"
      "0900000000000000"
      "0a00000000000000"
      "0b00000000000000";
  const std::string levels =
      "0900000000000000"
      "0800000000000000"
      "0700000000000000";
  EpochHistory runs(EntryId{10, 2});
  runs.append(3);
  runs.append(3);
  runs.append(5);
  const std::vector<std::pair<ReplicaMessage, std::string>> cases = {
      {StartView{small_view()}, "01" + view},
      {TailReport{6, runs, {9, 8, 7}, 5},
       "02"
       "0600000000000000"
       "0a00000000000000"
       "0200000000000000"
       "0d00000000000000"
       "02"
       "0b00000000000000"
       "0300000000000000"
       "0d00000000000000"
       "0500000000000000" +
           levels + "0500000000000000"},
      {TailReport{6, EpochHistory({0, 0}), {9, 8, 7}, 5, 4},
       "02"
       "0600000000000000"
       "0000000000000000"
       "0000000000000000"
       "0000000000000000"
       "00" +
           levels +
           "0500000000000000"
           "0400000000000000"},
      {AppendReply{6, {9, 8, 7}},
       "04"
       "0600000000000000" +
           levels},
      {Heartbeat{6, -1, 5},
       "05"
       "0600000000000000"
       "ffffffffffffffff"
       "0500000000000000"},
      {HeartbeatReply{6, 258, true, {9, 8, 7}},
       "06"
       "0600000000000000"
       "0201000000000000" +
           levels + "01"},
      {Confirm{6, 7},
       "07"
       "0600000000000000"
       "0700000000000000"},
      {ConfirmReply{6, 7},
       "08"
       "0600000000000000"
       "0700000000000000"},
      {Release{6},
       "09"
       "0600000000000000"},
      {SnapshotNeeded{6},
       "0a"
       "0600000000000000"},
      {StaleEpoch{small_view()}, "0b" + view},
      {Restored{6, 7},
       "0c"
       "0600000000000000"
       "0700000000000000"},
  };
  for (const auto& [message, body] : cases) {
    EXPECT_EQ(hex(as_byte_span(encoded(message))), kEnvelopeHex + body);
  }
}

TEST(MessageCodecTest, Append_GoldenBytes) {
  AppendBuffers buffers;
  AppendBuilder builder(buffers);
  builder.begin(kEnvelope, {.epoch = 5, .prev = {6, 4}, .epochs = {}, .commit_index = 3, .acknowledge_received = true},
                rpc::MessagePtr::make());
  ASSERT_TRUE(builder.add({5, -2, Durability::kFlush, 0x0102, as_byte_span("ab")}));
  const rpc::MessagePtr message = builder.finish();
  EXPECT_EQ(hex(as_byte_span(joined(*message))), std::string(kEnvelopeHex) +
                                                     "03"
                                                     "0500000000000000"
                                                     "0600000000000000"
                                                     "0400000000000000"
                                                     "0300000000000000"
                                                     "01000000"
                                                     "01"
                                                     "00"
                                                     "0000"
                                                     "0500000000000000"
                                                     "feffffffffffffff"
                                                     "02000000"
                                                     "01"
                                                     "00"
                                                     "0201"
                                                     "6162");
}

TEST(MessageCodecTest, Frame_RoundTripsWithRandomContents) {
  Rng rng(1);
  for (int i = 0; i < 300; ++i) {
    for (const std::string& bytes : random_frames(rng)) ASSERT_EQ(recode_frame(as_byte_span(bytes)), bytes);
  }
}

TEST(MessageCodecTest, Frame_OneFrameIsUsedForAllKinds) {
  Rng rng(2);
  ReplicaFrame frame;
  for (int i = 0; i < 50; ++i) {
    for (const std::string& bytes : random_frames(rng)) {
      ASSERT_TRUE(decode_frame(as_byte_span(bytes), frame).ok());
      if (is_append(frame.message)) continue;
      ASSERT_TRUE(frame.entries.bytes().empty());
      ASSERT_EQ(encoded(frame.message, frame.envelope), bytes);
    }
  }
}

TEST(MessageCodecTest, Decode_TruncatedAtEachByteOrWithOneMore) {
  Rng rng(3);
  for (const std::string& bytes : random_frames(rng)) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(recode_frame(as_byte_span(bytes).first(size))) << size << " of " << bytes.size();
    }
    ASSERT_FALSE(recode_frame(as_byte_span(bytes + '\0')));
  }
}

TEST(MessageCodecTest, Decode_UnknownKinds) {
  for (int kind = 0; kind < 256; ++kind) {
    if (kind >= 1 && kind <= 11) continue;
    std::string bytes = encoded(Release{1});
    bytes[kEnvelopeBytes - 1] = static_cast<char>(kind);
    EXPECT_FALSE(recode_frame(as_byte_span(bytes))) << kind;
  }
}

TEST(MessageCodecTest, Decode_ChangedBytesNeverMeanTheSame) {
  Rng rng(4);
  for (int i = 0; i < 200; ++i) {
    for (std::string bytes : random_frames(rng)) {
      bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      if (const auto recoded = recode_frame(as_byte_span(bytes))) {
        ASSERT_EQ(*recoded, bytes);
      }
    }
  }
}

TEST(MessageCodecTest, View_RefusesWhatIsNone) {
  const auto refused = [](View view) { return !recode_frame(as_byte_span(encoded(StartView{std::move(view)}))); };
  View view = small_view();
  EXPECT_FALSE(refused(view));
  view.primary = 4;  // no member
  EXPECT_TRUE(refused(view));
  view = small_view();
  std::swap(view.members[0], view.members[1]);
  EXPECT_TRUE(refused(view));
  view = small_view();
  view.members[0].node = view.members[1].node;
  EXPECT_TRUE(refused(view));
  view = small_view();
  view.learners[0].id.node = 0;
  EXPECT_TRUE(refused(view));
  view = small_view();
  view.primary = 0;
  EXPECT_FALSE(refused(view));
}

TEST(MessageCodecTest, Encode_RefusesWhatIsTooMuch) {
  FrameBuffer buffer;
  View view;
  for (NodeId node = 1; node <= kViewMembersMax; ++node) {
    view.members.push_back({node, 1});
    view.learners.push_back({{node, 1}, 1});
  }
  EXPECT_TRUE(encode_frame(kEnvelope, StartView{view}, buffer).ok());
  view.members.push_back({99, 1});
  EXPECT_EQ(encode_frame(kEnvelope, StartView{view}, buffer).status().code(), absl::StatusCode::kResourceExhausted);
  EpochHistory runs;
  for (uint64_t epoch = 1; epoch <= EpochHistory::kRunsMax; ++epoch) runs.append(epoch);
  EXPECT_TRUE(encode_frame(kEnvelope, TailReport{1, runs, {}, 0}, buffer).ok());
  runs.append(99);
  EXPECT_FALSE(encode_frame(kEnvelope, TailReport{1, runs, {}, 0}, buffer).ok());
}

TEST(MessageCodecTest, Decode_ADoubtThatIsNone) {
  std::string bytes = encoded(TailReport{1, EpochHistory({0, 0}), {}, 0, 4});
  EXPECT_TRUE(recode_frame(as_byte_span(bytes)));
  bytes[bytes.size() - 8] = 0;
  EXPECT_FALSE(recode_frame(as_byte_span(bytes)));
}

TEST(MessageCodecTest, Decode_AppendWithTooManyEntries) {
  const std::vector<AppendEntry> entries(kAppendEntriesMax + 1);
  const std::string bytes = plain_append(kEnvelope, {}, entries);
  EXPECT_FALSE(recode_frame(as_byte_span(bytes)));
}

TEST(MessageCodecTest, Append_HasNoTimeBeforeAllTimes) {
  const Append header{.epoch = 2, .prev = {1, 1}, .epochs = {}, .commit_index = 0};
  const auto framed = [&](int64_t time) { return plain_append(kEnvelope, header, {{.epoch = 2, .time = time}}); };
  EXPECT_TRUE(recode_frame(as_byte_span(framed(0))));
  EXPECT_TRUE(recode_frame(as_byte_span(framed(INT64_MAX))));
  EXPECT_FALSE(recode_frame(as_byte_span(framed(-1))));
  EXPECT_FALSE(recode_frame(as_byte_span(framed(INT64_MIN))));
}

}  // namespace
}  // namespace skua::kv
