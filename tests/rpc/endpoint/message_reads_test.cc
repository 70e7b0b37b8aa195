// MessageReads, over a device that has the peers' memory, and does as it is told.
#include "rpc/message_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/endpoint/bundled_parts.h"

namespace skua::rpc {
namespace {

using Fetch = SessionHost::Fetch;
using Kind = OneSidedCompletion::Kind;
using testing::SentPacket;

constexpr uint32_t kReadsMax = 3;
constexpr uint32_t kChunk = 700;
constexpr uint32_t kReadAbove = 2000;
constexpr uint64_t kStanding = 93;  // the connection's number
constexpr PeerId kReader = 1;

/// An address is a pointer: READs copy from there.
class MemoryDevice final : public OneSided {
 public:
  struct Lent {
    PeerId peer = kNoPeer;
    ByteSpan bytes;
    uint64_t cookie = 0;
  };
  uint64_t standing = kStanding;
  size_t room = SIZE_MAX;
  std::vector<OneSidedOperation> posted;
  std::map<uint64_t, Lent> lent;
  std::vector<uint64_t> taken_back;
  std::vector<PeerId> severed;

  uint64_t connection(PeerId /*peer*/) override { return standing; }
  std::optional<Loan> lend(PeerId peer, ByteSpan bytes, uint64_t cookie) override {
    lent[++last_] = {peer, bytes, cookie};
    return Loan{last_, {reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(last_)}};
  }
  void take_back(uint64_t loan) override { taken_back.push_back(loan); }
  absl::StatusOr<MemoryName> open_region(MutableByteSpan, uint8_t) override { return MemoryName(); }
  void close_region(uint32_t) override {}
  bool usable(ByteSpan) override { return true; }
  size_t post(std::span<const OneSidedOperation> operations) override {
    const size_t count = std::min(operations.size(), room - std::min(room, posted.size()));
    posted.insert(posted.end(), operations.begin(), operations.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }
  size_t reap(std::span<OneSidedCompletion>) override { return 0; }
  void sever(PeerId peer) override { severed.push_back(peer); }
  /// Runs the READ at `at` of those that are posted.
  OneSidedCompletion run(size_t at, bool ok = true) {
    const OneSidedOperation one = posted.at(at);
    posted.erase(posted.begin() + static_cast<ptrdiff_t>(at));
    if (ok) std::memcpy(one.local.data(), reinterpret_cast<const void*>(one.address), one.local.size());
    return {.cookie = one.cookie, .ok = ok};
  }

 private:
  uint64_t last_ = 0;
};

class MessageReadsTest : public ::testing::Test {
 protected:
  using Owner = MessageOwner;

  MessageReadsTest() {
    parts.host.reads = &reads;
    parts.host.outgoing = &outgoing;
  }
  ~MessageReadsTest() override {
    parts.lives.abort_all(absl::CancelledError("the test is over"));
    outgoing.run_completions();
    device.room = SIZE_MAX;
    for (reads.post_reads(); !device.posted.empty(); reads.post_reads()) reads.drop_read(device.run(0, false));
    reads.forget_loans();
    EXPECT_FALSE(reads.awaits_completions());
    EXPECT_EQ(parts.memory.buffer_count(), 0u);
  }
  static EndpointOptions options() {
    EndpointOptions out;
    out.protocol.reads_max = kReadsMax;
    out.protocol.read_chunk_bytes = kChunk;
    out.protocol.read_above_bytes = kReadAbove;
    out.memory_limit_bytes = size_t{64} << 20;
    return out;
  }
  /// What a peer announces: `text` is its head, and then spans that end at `ends`.
  static ReadList list_of(const std::string& text, size_t head, const std::vector<size_t>& ends) {
    ReadList list;
    list.connection = kStanding;
    list.head = as_byte_span(text).first(head);
    for (size_t from = head; const size_t end : ends) {
      list.spans[list.span_count] = {reinterpret_cast<uintptr_t>(text.data() + from), 1000 + list.span_count,
                                     static_cast<uint32_t>(end - from)};
      ++list.span_count;
      from = end;
    }
    return list;
  }
  static Owner owner_in(const SessionEntry& entry) {
    return {.session_index = entry.index,
            .session_generation = entry.wire_generation,
            .is_request = !entry.initiator,
            .req_num = 5};
  }
  Fetch fetch(const SessionEntry& entry, const ReadList& list) {
    return reads.fetch(owner_in(entry), list, static_cast<uint32_t>(list.message_bytes()));
  }
  void call(const SessionEntry& entry, MessagePtr request, CompletionFn completion) {
    ASSERT_TRUE(outgoing.call_large(entry.handle(), 9, request, {}, completion).ok());
  }
  /// The peer answers with the list.
  void answer(const SessionEntry& entry, uint32_t number, const ReadList& list) {
    std::vector<std::byte> bytes(list.encoded_bytes());
    list.encode(bytes);
    Arrival arrival;
    arrival.header.type = PacketType::kResponse;
    arrival.header.flags = packet_flags::kByRead;
    arrival.header.session_index = entry.index;
    arrival.header.req_num = number;
    arrival.header.message_bytes = static_cast<uint32_t>(list.message_bytes());
    arrival.header.stamp = to_ticks(parts.context.now_ns);
    arrival.payload = bytes;
    entry.session->on_packet(arrival, parts.context.now_ns);
  }
  std::vector<SentPacket> requests() {
    parts.transmits.transmit();
    std::vector<SentPacket> out = std::exchange(wire.packets, {});
    std::erase_if(out, [](const SentPacket& one) { return one.header.type != PacketType::kRequest; });
    return out;
  }
  static std::string text_of(size_t bytes, char first = 'a') {
    std::string out(bytes, first);
    for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(first + static_cast<char>(i % 23));
    return out;
  }
  /// A message that is sent from where `text` is.
  static MessagePtr message_of(const std::string& text, size_t head = 0) {
    MessagePtr out = MessagePtr::make();
    EXPECT_TRUE(out->append_head(as_byte_span(text).first(head)));
    EXPECT_TRUE(out->add_body(as_byte_span(text).subspan(head), nullptr, nullptr));
    return out;
  }

  struct Wire : testing::FramedWire {
    explicit Wire(OneSided& device) { one_sided_ = &device; }
  };
  MemoryDevice device;
  Wire wire{device};
  testing::SessionParts parts{wire, options()};
  OutgoingCalls outgoing{parts.context, parts.memory, parts.bundles};
  MessageReads reads{parts.context, parts.memory};
};

// --- Fetching --------------------------------------------------------------------------------------------------------

TEST_F(MessageReadsTest, OnlyOverTheConnectionThatStandsAMessageIsFetched) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(3000);
  ReadList list = list_of(text, 10, {3000});
  device.standing = 0;
  EXPECT_EQ(fetch(entry, list), Fetch::kImpossible);
  list.connection = 0;
  EXPECT_EQ(fetch(entry, list), Fetch::kImpossible) << "no connection is not a connection";
  device.standing = kStanding + 1;
  list.connection = kStanding;
  EXPECT_EQ(fetch(entry, list), Fetch::kImpossible) << "the memory may hold something else by now";
  EXPECT_FALSE(reads.awaits_completions());
  EXPECT_EQ(parts.memory.buffer_count(), 0u);
  device.standing = kStanding;
  EXPECT_EQ(fetch(entry, list), Fetch::kStarted);
  EXPECT_TRUE(reads.awaits_completions());
}

TEST_F(MessageReadsTest, ReadsAreChunksOfTheSpans_AndOnlySoManyRun) {
  const std::string text = text_of(3000);
  ASSERT_EQ(fetch(parts.dialled(kReader), list_of(text, 10, {1000, 3000})), Fetch::kStarted);
  EXPECT_EQ(parts.context.counters.rx_copied_bytes, 10u) << "the head";
  EXPECT_EQ(reads.post_reads(), kReadsMax);
  EXPECT_EQ(reads.post_reads(), 0u);
  EXPECT_EQ(reads.reads_in_flight(), kReadsMax);
  const std::byte* message = device.posted[0].local.data() - 10;
  EXPECT_EQ(as_string_view({message, 10}), text.substr(0, 10));
  size_t at = 10;
  for (const size_t bytes : {700u, 290u, 700u}) {
    const OneSidedOperation one = device.posted[0];
    EXPECT_EQ(one.kind, OneSidedOperation::Kind::kRead);
    EXPECT_EQ(one.peer, kReader);
    EXPECT_EQ(one.connection, kStanding);
    EXPECT_EQ(one.local.data(), message + at);
    EXPECT_EQ(one.local.size(), bytes);
    EXPECT_EQ(one.address, reinterpret_cast<uintptr_t>(text.data() + at));
    EXPECT_EQ(one.key, at < 1000 ? 1000u : 1001u);
    at += bytes;
    reads.on_completion(device.run(0));
    EXPECT_EQ(reads.post_reads(), at < 1700 ? 1u : 0u) << "a READ that ended makes room for the next";
  }
}

TEST_F(MessageReadsTest, AReadThatTheDeviceDoesNotTake_IsPostedLater) {
  const std::string text = text_of(1400);
  ASSERT_EQ(fetch(parts.dialled(kReader), list_of(text, 0, {1400})), Fetch::kStarted);
  device.room = 1;
  EXPECT_EQ(reads.post_reads(), 1u);
  EXPECT_EQ(reads.post_reads(), 0u);
  EXPECT_EQ(reads.reads_in_flight(), 1u);
  device.room = 2;
  EXPECT_EQ(reads.post_reads(), 1u);
  EXPECT_EQ(device.posted[1].address, device.posted[0].address + 700);
  EXPECT_EQ(device.posted[1].local.data(), device.posted[0].local.data() + 700);
}

TEST_F(MessageReadsTest, ResponsesCompleteTheirCalls) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(2500);
  std::optional<std::string> response;
  call(entry, MessagePtr(), [&](CallOutcome&& outcome) { response = as_string_view(outcome.response.bytes()); });
  answer(entry, requests().at(0).header.req_num, list_of(text, 100, {900, 2500}));
  for (int i = 0; i < 5; ++i) {
    reads.post_reads();
    outgoing.run_completions();
    EXPECT_FALSE(response.has_value());
    reads.on_completion(device.run(device.posted.size() - 1));
  }
  EXPECT_FALSE(reads.awaits_completions());
  outgoing.run_completions();
  EXPECT_TRUE(response == text);
  EXPECT_EQ(parts.context.counters.rx_read_bytes, 2500u);
  EXPECT_EQ(parts.context.counters.reads_failed, 0u);
}

TEST_F(MessageReadsTest, AMessageFailsOnce_AfterItsLastRead) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(3000);
  call(entry, MessagePtr(), [](CallOutcome&&) {});
  answer(entry, requests().at(0).header.req_num, list_of(text, 0, {3000}));
  ASSERT_EQ(reads.post_reads(), 3u);
  reads.on_completion(device.run(1, false));
  EXPECT_EQ(reads.post_reads(), 0u) << "the rest is not asked for";
  reads.on_completion(device.run(1, false));
  EXPECT_EQ(parts.context.counters.reads_failed, 0u);
  reads.on_completion(device.run(0));
  EXPECT_EQ(parts.context.counters.reads_failed, 1u);
  EXPECT_EQ(parts.context.counters.rx_read_bytes, 0u);
  parts.transmits.transmit();
  EXPECT_TRUE(std::ranges::any_of(wire.packets, [](const SentPacket& one) {
    return one.header.type == PacketType::kPull;
  })) << "the session asks for packets";
}

/// The device writes to the message's memory until then.
TEST_F(MessageReadsTest, AMessageOfASessionThatEnded_KeepsItsMemoryUntilItsReadsEnd) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(1400);
  ASSERT_EQ(fetch(entry, list_of(text, 0, {1400})), Fetch::kStarted);
  ASSERT_EQ(reads.post_reads(), 2u);
  parts.lives.end(entry, absl::CancelledError("test"));
  parts.lives.bury();
  reads.on_completion(device.run(0));
  EXPECT_EQ(parts.memory.buffer_count(), 1u);
  reads.on_completion(device.run(0));
  EXPECT_EQ(parts.memory.buffer_count(), 0u);
  EXPECT_FALSE(reads.awaits_completions());
}

TEST_F(MessageReadsTest, RequestsTakeThePeersShareOfTheMemory) {
  SessionEntry& entry = parts.accepted(7);
  ASSERT_TRUE(parts.binding.bind(entry, kReader));
  const std::string text = text_of(size_t{8} << 20);
  const ReadList list = list_of(text, 0, {text.size()});
  EXPECT_EQ(fetch(entry, list), Fetch::kStarted);
  EXPECT_EQ(fetch(entry, list), Fetch::kNoMemory);
  EXPECT_EQ(fetch(parts.dialled(kReader), list), Fetch::kStarted) << "what we asked for is in nobody's share";
  for (const PeerId peer : {kReader + 1, kReader + 2}) {
    SessionEntry& other = parts.accepted(7 + peer);
    ASSERT_TRUE(parts.binding.bind(other, peer));
    EXPECT_EQ(fetch(other, list), Fetch::kStarted) << "another peer has a share of its own";
  }
  while (reads.post_reads() > 0) reads.on_completion(device.run(0, false));
}

// --- Announcing ------------------------------------------------------------------------------------------------------

TEST_F(MessageReadsTest, ARequestIsAnnounced_WhenItsMemoryIsLent) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(3000);
  call(entry, message_of(text, 20), [](CallOutcome&&) {});
  ASSERT_EQ(device.lent.size(), 1u);
  EXPECT_EQ(device.lent[1].peer, kReader);
  EXPECT_EQ(as_string_view(device.lent[1].bytes), text.substr(20));
  EXPECT_TRUE(reads.awaits_completions());
  EXPECT_TRUE(requests().empty());
  reads.on_completion({device.lent[1].cookie, true, Kind::kLent});
  const std::vector<SentPacket> sent = requests();
  ASSERT_EQ(sent.size(), 1u);
  ReadList list;
  ASSERT_TRUE(ReadList::decode(as_byte_span(sent[0].payload), list));
  EXPECT_EQ(list.connection, kStanding);
  EXPECT_EQ(as_string_view(list.head), text.substr(0, 20));
  ASSERT_EQ(list.span_count, 1u);
  EXPECT_EQ(list.spans[0], (RemoteSpan{reinterpret_cast<uintptr_t>(text.data() + 20), 1, 2980}));
  EXPECT_FALSE(reads.awaits_completions());
}

TEST_F(MessageReadsTest, ARequestWhoseLoanFailed_GoesInPackets) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(3000);
  call(entry, message_of(text), [](CallOutcome&&) {});
  reads.on_completion({device.lent[1].cookie, false, Kind::kLent});
  EXPECT_EQ(device.taken_back, std::vector<uint64_t>({1})) << "every loan is taken back";
  const std::vector<SentPacket> sent = requests();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].header.flags & packet_flags::kByRead, 0);
}

TEST_F(MessageReadsTest, WhatCannotBeAnnounced_IsNotLent) {
  const std::string text = text_of(3000);
  SessionEntry& unbound = parts.accepted(7);
  EXPECT_FALSE(reads.announce(owner_in(unbound), message_of(text))) << "it has no peer";
  SessionEntry& entry = parts.dialled(kReader);
  device.standing = 0;
  EXPECT_FALSE(reads.announce(owner_in(entry), message_of(text))) << "no connection stands";
  EXPECT_TRUE(device.lent.empty());
}

/// A list has 12 bytes, the head, and 16 for each span. It goes in the head of a message, and in one packet.
TEST_F(MessageReadsTest, AListHasToFitAHeadAndAPacket) {
  const std::string text = text_of(3000);
  SessionEntry& entry = parts.dialled(kReader);
  for (const auto& [payload, most] : {std::pair(1000u, 256u - 28u), std::pair(100u, 100u - 28u)}) {
    SessionTerms terms = entry.session->terms();
    terms.payload_bytes = payload;
    parts.lives.open(entry, terms);
    EXPECT_TRUE(reads.announce(owner_in(entry), message_of(text, most)));
    EXPECT_FALSE(reads.announce(owner_in(entry), message_of(text, most + 1)));
  }
  EXPECT_EQ(device.taken_back.size(), 4u) << "nothing stays lent";
}

/// The session that announced has ended before the memory was lent.
TEST_F(MessageReadsTest, ALoanOfASessionThatEnded_IsTakenBack) {
  SessionEntry& entry = parts.dialled(kReader);
  const std::string text = text_of(3000);
  call(entry, message_of(text), [](CallOutcome&&) {});
  parts.lives.end(entry, absl::CancelledError("test"));
  outgoing.run_completions();
  EXPECT_EQ(device.severed, std::vector<PeerId>({kReader})) << "a peer must not read what is no longer announced";
  parts.lives.bury();
  EXPECT_EQ(device.taken_back, std::vector<uint64_t>({1}));
  reads.on_completion({device.lent[1].cookie, true, Kind::kLent});
  EXPECT_TRUE(reads.awaits_completions());
  reads.on_completion({device.lent[1].cookie, true, Kind::kTakenBack});
  EXPECT_FALSE(reads.awaits_completions());
}

TEST_F(MessageReadsTest, ASessionWithoutAPeerSeversNobody) {
  reads.sever(*parts.accepted(7).session);
  EXPECT_TRUE(device.severed.empty());
  reads.sever(*parts.dialled(kReader).session);
  EXPECT_EQ(device.severed, std::vector<PeerId>({kReader}));
}

TEST_F(MessageReadsTest, AtTheEnd_BothDirectionsAreCutOff) {
  const std::string text = text_of(3000);
  ASSERT_EQ(fetch(parts.dialled(1), list_of(text, 0, {3000})), Fetch::kStarted);
  const Announcement announced = reads.announce(owner_in(parts.dialled(2)), message_of(text));
  ASSERT_TRUE(announced);
  reads.post_reads();
  reads.stop_reading();
  EXPECT_EQ(device.severed, std::vector<PeerId>({1, 2}));
  while (!device.posted.empty()) reads.drop_read(device.run(0, false));
  EXPECT_EQ(reads.reads_in_flight(), 0u);
  EXPECT_EQ(parts.context.counters.reads_failed, 0u) << "nobody waits for it";
  EXPECT_EQ(parts.memory.buffer_count(), 0u);
  reads.forget_loans();
  EXPECT_FALSE(reads.awaits_completions());
}

TEST(MessageReads, WithoutADevice_AllGoesInPackets) {
  testing::FramedWire wire;
  testing::SessionParts parts(wire);
  MessageReads reads(parts.context, parts.memory);
  SessionEntry& entry = parts.dialled(kReader);
  const MessageOwner owner{.session_index = entry.index};
  const std::string text(3000, 'a');
  MessagePtr message = MessagePtr::make();
  ASSERT_TRUE(message->add_body(as_byte_span(text), nullptr, nullptr));
  EXPECT_FALSE(reads.announce(owner, message));
  EXPECT_EQ(reads.fetch(owner, {.connection = 1}, 3000), Fetch::kImpossible);
  reads.sever(*entry.session);
  EXPECT_EQ(reads.post_reads(), 0u);
  EXPECT_FALSE(reads.awaits_completions());
  reads.stop_reading();
}

// --- Against the text ------------------------------------------------------------------------------------------------

/// Many responses at once, of any spans, whose READs end in any order.
TEST_F(MessageReadsTest, WhatWasRead_IsWhatThePeerHas) {
  Rng rng(1);
  const std::vector<SessionEntry*> sessions = {&parts.dialled(1), &parts.dialled(2)};
  std::deque<std::string> texts;
  size_t equal = 0;
  size_t bytes = 0;
  size_t begun = 0;
  for (int step = 0; step < 20'000; ++step) {
    SessionEntry& entry = *sessions[rng.below(sessions.size())];
    if (rng.below(4) == 0 && entry.session->outstanding_calls() < 8) {
      const std::string& text = texts.emplace_back(text_of(1001 + rng.below(8000), static_cast<char>(rng.below(80))));
      bytes += text.size();
      ++begun;
      call(entry, MessagePtr(), [&](CallOutcome&& outcome) {
        ASSERT_TRUE(outcome.status.ok());
        ASSERT_EQ(as_string_view(outcome.response.bytes()), text);
        ++equal;
      });
      const size_t head = rng.below(200);
      std::vector<size_t> ends;
      for (size_t i = rng.below(4); i > 0; --i) ends.push_back(head + 1 + rng.below(text.size() - head - 1));
      ends.push_back(text.size());
      std::ranges::sort(ends);
      ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
      const std::vector<SentPacket> sent = requests();
      ASSERT_EQ(sent.size(), 1u);
      answer(entry, sent[0].header.req_num, list_of(text, head, ends));
    }
    device.room = rng.below(5);
    reads.post_reads();
    ASSERT_EQ(reads.reads_in_flight(), device.posted.size());
    ASSERT_LE(device.posted.size(), kReadsMax);
    if (!device.posted.empty()) reads.on_completion(device.run(rng.below(device.posted.size())));
    outgoing.run_completions();
  }
  device.room = SIZE_MAX;
  while (reads.awaits_completions()) {
    reads.post_reads();
    reads.on_completion(device.run(rng.below(device.posted.size())));
  }
  outgoing.run_completions();
  EXPECT_EQ(equal, begun);
  EXPECT_GT(begun, 500u);
  EXPECT_EQ(parts.context.counters.rx_read_bytes, bytes);
}

}  // namespace
}  // namespace skua::rpc
