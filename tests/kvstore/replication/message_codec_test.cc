#include "kvstore/replication/message_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/kvstore/codec/codec_testing.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

using testing::hex;
using testing::joined;
using testing::plain_append;
using testing::random_text;
using testing::recode_chunk;
using testing::recode_fetch_chunk;
using testing::recode_fetch_tail;
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

std::string encoded(const Chunk& chunk) {
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  return std::string(as_string_view(encode_chunk_head(chunk, buffer).value())).append(as_string_view(chunk.data));
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

EpochRuns random_runs(Rng& rng) {
  EpochRuns runs(EntryId{rng.below(1000), rng.below(10)});
  for (uint64_t i = rng.below(40); i > 0; --i) runs.append(rng.below(1000));
  runs.compact_to(EpochRuns::kRunsMax, UINT64_MAX);
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

struct RandomAppend {
  Append header;
  std::vector<std::string> payloads;
  std::vector<AppendEntry> entries;
};

RandomAppend random_append(Rng& rng, size_t entries, size_t payload_max) {
  RandomAppend out;
  out.header = {.epoch = rng.next(), .prev = {rng.next(), rng.next()}, .epochs = {}, .commit_index = rng.next()};
  out.header.acknowledge_received = rng.chance(0.5);
  for (size_t i = 0; i < entries; ++i) out.payloads.push_back(random_text(rng, rng.below(payload_max + 1)));
  for (const std::string& payload : out.payloads) {
    out.entries.push_back({.epoch = rng.next(),
                           .time = static_cast<int64_t>(rng.next() >> 1),
                           .durability = *durability_of_code(rng.below(3)),
                           .flags = static_cast<uint16_t>(rng.next()),
                           .payload = as_byte_span(payload)});
  }
  return out;
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
  EpochRuns runs(EntryId{10, 2});
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
      {TailReport{6, EpochRuns({0, 0}), {9, 8, 7}, 5, 4},
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

TEST(MessageCodecTest, Chunk_GoldenBytes) {
  std::array<std::byte, kFetchChunkBytes> buffer;
  EXPECT_EQ(hex(encode_fetch_chunk({1, 2, 3, 4, 5, 6}, buffer).value()),
            "0100000002000000"
            "0300000000000000"
            "04000000"
            "0500000000000000"
            "06000000");
  EXPECT_EQ(hex(as_byte_span(encoded({.snapshot = 1,
                                      .end = {2, 3},
                                      .files = 4,
                                      .file_bytes = 9,
                                      .offset = 6,
                                      .crc32c = 0x01020304,
                                      .name = "f",
                                      .data = as_byte_span("xyz")}))),
            "0100000000000000"
            "0200000000000000"
            "0300000000000000"
            "04000000"
            "0900000000000000"
            "0600000000000000"
            "04030201"
            "01"
            "66"
            "78797a");
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
  EpochRuns runs;
  for (uint64_t epoch = 1; epoch <= EpochRuns::kRunsMax; ++epoch) runs.append(epoch);
  EXPECT_TRUE(encode_frame(kEnvelope, TailReport{1, runs, {}, 0}, buffer).ok());
  runs.append(99);
  EXPECT_FALSE(encode_frame(kEnvelope, TailReport{1, runs, {}, 0}, buffer).ok());
}

TEST(MessageCodecTest, Decode_ADoubtThatIsNone) {
  std::string bytes = encoded(TailReport{1, EpochRuns({0, 0}), {}, 0, 4});
  EXPECT_TRUE(recode_frame(as_byte_span(bytes)));
  bytes[bytes.size() - 8] = 0;
  EXPECT_FALSE(recode_frame(as_byte_span(bytes)));
}

TEST(MessageCodecTest, Decode_AppendWithTooManyEntries) {
  const std::vector<AppendEntry> entries(kAppendEntriesMax + 1);
  const std::string bytes = plain_append(kEnvelope, {}, entries);
  EXPECT_FALSE(recode_frame(as_byte_span(bytes)));
}

// --- AppendBuilder

/// Adds all entries, in as many Appends as that takes; what came out, joined.
std::vector<std::string> build(const RandomAppend& append, AppendBuffers& buffers, size_t* released) {
  std::vector<std::string> messages;
  AppendBuilder builder(buffers);
  const auto release = [](void* count) { ++*static_cast<size_t*>(count); };
  for (size_t i = 0; i < append.entries.size();) {
    builder.begin(kEnvelope, append.header, rpc::MessagePtr::make());
    const size_t first = i;
    while (i < append.entries.size() && builder.add(append.entries[i], release, released)) ++i;
    EXPECT_EQ(builder.count(), i - first);
    EXPECT_GT(i, first);
    const rpc::MessagePtr message = builder.finish();
    messages.push_back(joined(*message));
    EXPECT_EQ(messages.back(), plain_append(kEnvelope, append.header,
                                            {append.entries.begin() + static_cast<ptrdiff_t>(first),
                                             append.entries.begin() + static_cast<ptrdiff_t>(i)}));
    EXPECT_TRUE(recode_frame(as_byte_span(messages.back())));
  }
  return messages;
}

TEST(AppendBuilderTest, Build_AsItsTwinWhateverTheSizes) {
  Rng rng(5);
  AppendBuffers buffers;
  for (int i = 0; i < 60; ++i) {
    const size_t payload_max = size_t{1} << rng.below(16);
    const RandomAppend append = random_append(rng, rng.between(1, 60), payload_max);
    size_t released = 0;
    static_cast<void>(build(append, buffers, &released));
    ASSERT_EQ(released, append.entries.size());
    ASSERT_EQ(buffers.outstanding_count(), 0U);
  }
}

TEST(AppendBuilderTest, Large_IsNotCopied) {
  AppendBuffers buffers;
  AppendBuilder builder(buffers);
  const std::string payload(kAppendBytesMax, 'x');
  size_t released = 0;
  builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
  ASSERT_TRUE(builder.add(
      {.payload = as_byte_span(payload)}, [](void* count) { ++*static_cast<size_t*>(count); }, &released));
  rpc::MessagePtr message = builder.finish();
  ASSERT_EQ(message->body_count(), 1U);
  EXPECT_EQ(message->body(0).data(), as_byte_span(payload).data());
  EXPECT_EQ(released, 0U);
  EXPECT_EQ(buffers.outstanding_count(), 0U);
  message.reset();
  EXPECT_EQ(released, 1U);
}

TEST(AppendBuilderTest, Small_AreCopiedIntoOneBody) {
  AppendBuffers buffers;
  Rng rng(6);
  const RandomAppend append = random_append(rng, 256, 100);
  size_t released = 0;
  EXPECT_EQ(build(append, buffers, &released).size(), 1U);
  EXPECT_EQ(released, 256U);
}

TEST(AppendBuilderTest, Full_IsSaidAtEachBound) {
  AppendBuffers buffers;
  AppendBuilder builder(buffers);
  const auto filled = [&](size_t payload_bytes) {
    const std::string payload(payload_bytes, 'x');
    builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
    while (builder.add({.payload = as_byte_span(payload)})) {
    }
    const rpc::MessagePtr message = builder.finish();
    return builder.count();
  };
  EXPECT_EQ(filled(0), kAppendEntriesMax);
  EXPECT_EQ(filled(kAppendCopyBytesMax), kAppendCopiedBytesMax / (kAppendCopyBytesMax + kAppendEntryHeadBytes));
  EXPECT_EQ(filled(kAppendCopyBytesMax + 1), 2U);  // each needs a body for its head and one for itself
  EXPECT_EQ(filled(kAppendBytesMax / 2 + 1), 1U);
  EXPECT_EQ(filled(kAppendBytesMax + 1), 1U);  // alone it goes
}

TEST(AppendBuilderTest, Unfinished_LetsGo) {
  AppendBuffers buffers;
  const std::string payload(kAppendCopyBytesMax + 1, 'x');
  size_t released = 0;
  {
    AppendBuilder builder(buffers);
    builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
    ASSERT_TRUE(builder.add(
        {.payload = as_byte_span(payload)}, [](void* count) { ++*static_cast<size_t*>(count); }, &released));
  }
  EXPECT_EQ(released, 1U);
}

// --- Snapshots

TEST(MessageCodecTest, Append_HasNoTimeBeforeAllTimes) {
  const Append header{.epoch = 2, .prev = {1, 1}, .epochs = {}, .commit_index = 0};
  const auto framed = [&](int64_t time) { return plain_append(kEnvelope, header, {{.epoch = 2, .time = time}}); };
  EXPECT_TRUE(recode_frame(as_byte_span(framed(0))));
  EXPECT_TRUE(recode_frame(as_byte_span(framed(INT64_MAX))));
  EXPECT_FALSE(recode_frame(as_byte_span(framed(-1))));
  EXPECT_FALSE(recode_frame(as_byte_span(framed(INT64_MIN))));
}

TEST(MessageCodecTest, Chunk_OfALogThatNobodyHasIsRefused) {
  Chunk chunk{.snapshot = 1, .end = {EpochRuns::kIndexMax, 3}, .files = 1, .name = "CURRENT"};
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  EXPECT_TRUE(encode_chunk_head(chunk, buffer).ok());
  ++chunk.end.index;
  EXPECT_FALSE(encode_chunk_head(chunk, buffer).ok());
}

TEST(MessageCodecTest, Chunk_RoundTripsAndRefusesTruncation) {
  const std::string bytes = encoded({.snapshot = 1,
                                     .end = {2, 3},
                                     .files = 4,
                                     .file_bytes = 9,
                                     .offset = 6,
                                     .crc32c = 5,
                                     .name = "000012.sst",
                                     .data = as_byte_span("xyz")});
  EXPECT_EQ(recode_chunk(as_byte_span(bytes)), bytes);
  for (size_t size = 0; size < bytes.size() - 3; ++size) {
    EXPECT_FALSE(recode_chunk(as_byte_span(bytes).first(size))) << size;
  }
  std::array<std::byte, kFetchChunkBytes> buffer;
  const std::string fetch(as_string_view(encode_fetch_chunk({1, 2, 3, 4, 5, 6}, buffer).value()));
  EXPECT_EQ(recode_fetch_chunk(as_byte_span(fetch)), fetch);
  for (size_t size = 0; size < fetch.size(); ++size) EXPECT_FALSE(recode_fetch_chunk(as_byte_span(fetch).first(size)));
  EXPECT_FALSE(recode_fetch_chunk(as_byte_span(fetch + '\0')));
}

TEST(MessageCodecTest, FetchTail_GoldenBytesAndBounds) {
  std::array<std::byte, kFetchTailBytes> buffer;
  const std::string fetch(as_string_view(encode_fetch_tail({1, 2, 3, 4}, buffer)));
  EXPECT_EQ(hex(as_byte_span(fetch)),
            "0100000002000000"
            "0300000000000000"
            "04000000");
  EXPECT_EQ(recode_fetch_tail(as_byte_span(fetch)), fetch);
  for (size_t size = 0; size < fetch.size(); ++size) EXPECT_FALSE(recode_fetch_tail(as_byte_span(fetch).first(size)));
  EXPECT_FALSE(recode_fetch_tail(as_byte_span(fetch + '\0')));
  for (const uint32_t bytes_max : {uint32_t{0}, static_cast<uint32_t>(kChunkBytesMax + 1)}) {
    EXPECT_FALSE(recode_fetch_tail(encode_fetch_tail({1, 2, 3, bytes_max}, buffer)));
  }
}

TEST(MessageCodecTest, Chunk_RefusesWhatIsOutsideOfItsFile) {
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  const Chunk good = {.snapshot = 1, .files = 1, .file_bytes = 3, .name = "f", .data = as_byte_span("xyz")};
  const auto refused = [&](auto change) {
    Chunk chunk = good;
    change(chunk);
    return !encode_chunk_head(chunk, buffer).ok();
  };
  EXPECT_FALSE(refused([](Chunk&) {}));
  EXPECT_TRUE(refused([](Chunk& c) { c.offset = 1; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.snapshot = 0; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.files = 0; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.data = {}; }));
  EXPECT_FALSE(refused([](Chunk& c) { c.data = {}, c.file_bytes = 0; }));
  for (const std::string_view name : {"", ".", "..", "a/b", "/etc/passwd", "../up"}) {
    EXPECT_TRUE(refused([&](Chunk& c) { c.name = name; })) << name;
  }
}

}  // namespace
}  // namespace skua::kv
