// AssociationJoins of two endpoints, over a wire that loses, repeats and reorders bundles. In the end both sides agree.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/endpoint/bundled_parts.h"

namespace skua::rpc::testing {
namespace {

constexpr PeerId kOpener = 1;    // as the acceptor names it
constexpr PeerId kAcceptor = 2;  // as the opener names it
constexpr size_t kJoining = 5;   // sessions

class JoinsOfTwoEnds : public ::testing::TestWithParam<bool> {
 protected:
  struct End {
    explicit End(uint64_t seed) : parts(wire, with_seed(seed)) {}
    static EndpointOptions with_seed(uint64_t seed) {
      EndpointOptions out;
      out.simulation_seed = seed;
      return out;
    }
    FramedWire wire;
    SessionParts parts;
    std::vector<SessionEntry*> sessions;
    std::vector<std::string> arriving;  // bundles on their way to this end
  };

  JoinsOfTwoEnds() {
    for (size_t i = 0; i < kJoining; ++i) {
      SessionEntry& ours = opener.parts.dialled(kAcceptor);
      SessionEntry& its = acceptor.parts.accepted(i);
      its.version = kBundleVersion;
      ours.remote_index = its.index;
      ours.remote_generation = its.wire_generation;
      its.remote_index = ours.index;
      its.remote_generation = ours.wire_generation;
      opener.sessions.push_back(&ours);
      acceptor.sessions.push_back(&its);
    }
  }
  static bool is_in(const SessionEntry& entry) { return entry.session->hot().association != nullptr; }
  /// Both sides send to each other what the other takes.
  [[nodiscard]] bool agree(size_t i) const {
    const SessionEntry& ours = *opener.sessions[i];
    const SessionEntry& its = *acceptor.sessions[i];
    if (!is_in(ours) || !is_in(its)) return false;
    const Association& a = *ours.association;
    const Association& b = *its.association;
    return a.remote_index == b.index && a.remote_epoch == b.epoch && b.remote_index == a.index &&
           b.remote_epoch == a.epoch && ours.session->hot().remote_handle == its.session->hot().handle &&
           its.session->hot().remote_handle == ours.session->hot().handle;
  }
  [[nodiscard]] size_t agreed() const {
    size_t count = 0;
    for (size_t i = 0; i < kJoining; ++i) count += agree(i) ? 1 : 0;
    return count;
  }
  /// What is true of one end at any time.
  static void check(End& end) {
    std::map<const Association*, uint32_t> counts;
    for (const SessionEntry* entry : end.sessions) {
      const SessionHot& hot = entry->session->hot();
      ASSERT_EQ(hot.association == nullptr, (hot.hindrances & SessionHot::kNotJoined) != 0);
      ASSERT_TRUE(hot.association == nullptr || hot.association == entry->association);
      if (entry->association != nullptr) ++counts[entry->association];
    }
    ASSERT_EQ(end.parts.bundles.associations().size(), counts.size()) << "an association lives as long as its sessions";
    for (const auto& [association, count] : counts) ASSERT_EQ(association->session_count, count);
  }
  void pass(DurationNs time) {
    opener.parts.pass(time);
    acceptor.parts.pass(time);
  }
  /// What the end wrote is on its way.
  static void send(End& from, End& to) {
    from.parts.transmits.transmit();
    for (SentBundle& bundle : std::exchange(from.wire.bundles, {})) to.arriving.push_back(std::move(bundle.bytes));
    from.parts.bundles.bury_ended();
  }
  static void take(End& end, PeerId from, const std::string& bundle) {
    RxPacket packet;
    packet.from = from;
    packet.header = as_byte_span(bundle).first(kPacketHeaderBytes);
    packet.payload = as_byte_span(bundle).subspan(kPacketHeaderBytes);
    end.parts.bundles.on_packet({&packet, 1}, 0, false);
  }
  void join_if_due(SessionEntry& entry) {
    const bool is_due = entry.next_join_ns == kTimeNever || entry.next_join_ns <= opener.parts.context.now_ns;
    if (!is_in(entry) && is_due) opener.parts.joins.join(entry);
  }
  void deliver_one(End& end, PeerId from) {
    if (end.arriving.empty()) return;
    const size_t at = rng.below(end.arriving.size());
    const std::string bundle = end.arriving[at];
    const uint64_t luck = rng.below(8);
    if (luck >= 2) take(end, from, bundle);                                               // else it is lost
    if (luck < 7) end.arriving.erase(end.arriving.begin() + static_cast<ptrdiff_t>(at));  // else it comes again
  }
  void step() {
    pass(kMicrosecond);
    const size_t i = rng.below(kJoining);
    switch (rng.below(12)) {
      case 0: return pass(static_cast<DurationNs>(rng.below(60)) * kMillisecond);
      case 1: return rng.below(4) == 0 ? opener.parts.joins.leave(*opener.sessions[i]) : void();
      case 2: return acceptor_leaves && rng.below(4) == 0 ? acceptor.parts.joins.leave(*acceptor.sessions[i]) : void();
      case 3:
      case 4:
      case 5: return join_if_due(*opener.sessions[i]);
      case 6: return send(opener, acceptor);
      case 7: return send(acceptor, opener);
      case 8:
      case 9: return deliver_one(opener, kAcceptor);
      default: return deliver_one(acceptor, kOpener);
    }
  }
  /// From now on nothing is lost. Returns after how many rounds both sides agree.
  int settle() {
    for (int round = 0; round < 100; ++round) {
      if (agreed() == kJoining) return round;
      pass(opener.parts.context.options.protocol.connect_retry_ns);
      for (size_t i = 0; i < kJoining; ++i) {
        SessionEntry& entry = *opener.sessions[i];
        // The acceptor's connection broke. The opener learns of that, too.
        if (acceptor_leaves && is_in(entry) && !agree(i)) opener.parts.joins.leave(entry);
        join_if_due(entry);
      }
      send(opener, acceptor);
      for (const std::string& bundle : std::exchange(acceptor.arriving, {})) take(acceptor, kOpener, bundle);
      send(acceptor, opener);
      for (const std::string& bundle : std::exchange(opener.arriving, {})) take(opener, kAcceptor, bundle);
    }
    return -1;
  }

  const bool acceptor_leaves = GetParam();
  Rng rng{1};
  End opener{1};
  End acceptor{2};
};

INSTANTIATE_TEST_SUITE_P(WhoLeaves, JoinsOfTwoEnds, ::testing::Bool());

TEST_P(JoinsOfTwoEnds, InTheEndTheyAgree) {
  size_t disagreed = 0;
  for (int life = 0; life < 300; ++life) {
    for (int i = 0; i < 300; ++i) {
      step();
      check(opener);
      check(acceptor);
      if (HasFatalFailure()) FAIL() << "life " << life << ", step " << i;
    }
    disagreed += agreed() < kJoining ? 1 : 0;
    ASSERT_GE(settle(), 0) << "life " << life;
    check(opener);
    check(acceptor);
  }
  EXPECT_GT(disagreed, 100u) << "there was something to settle";
  for (End* end : {&opener, &acceptor}) {
    for (SessionEntry* entry : end->sessions) end->parts.joins.leave(*entry);
    EXPECT_EQ(end->parts.bundles.associations().size(), 0u);
  }
}

}  // namespace
}  // namespace skua::rpc::testing
