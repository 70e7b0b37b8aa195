// Replicas of one shard among liars: messages that nobody's state machine has made, with numbers next to the real ones.
//
//     nodes 1, 2, 3   honest, with a control plane that makes one of them the primary of each view
//     node 4          says anything, in its own name: as a member, a learner, or a stranger
//     node 5          a stranger
//
// The first byte chooses. Liars with their own names: whatever they say, honest replicas never disagree about a
// committed entry. Liars that also speak in the names of honest nodes, which only a network that is not protected
// allows: there is no such promise then. Either way nothing aborts, what a replica has committed stays committed there,
// no view is adopted that the control plane did not make, and what one message makes a replica say is bounded.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvstore/replication/replica.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/replica_messages.h"
#include "tests/kvstore/replication/learner_of.h"

namespace skua::kv::fuzz {
namespace {

constexpr NodeId kHonest = 3;
constexpr NodeId kLiar = 4;
constexpr NodeId kStranger = 5;
constexpr size_t kStepsMax = 400;
constexpr size_t kUnderWayMax = 200;
constexpr size_t kOutputMax = 64;

ReplicaOptions replica_options() {
  ReplicaOptions options;
  options.append_entries_max = 4;
  options.window_entries_max = 16;
  options.caught_up_entries = 4;
  return options;
}

struct Packet {
  NodeId from = 0;
  NodeId to = 0;
  ReplicaMessage message;
  std::vector<uint64_t> contents{};  // of an Append's entries
};

/// One replica, and its log: what each entry says is a number that no other entry has.
struct Node {
  std::unique_ptr<Replica> replica;
  std::vector<uint64_t> log = {0};
  uint64_t written = 0;
  uint64_t durable = 0;
  View persisted{};
  uint64_t committed = 0;
};

class Script {
 public:
  Script(bool forges, ByteSpan bytes) : forges_(forges), in_(bytes) {
    for (NodeId node = 1; node <= kHonest; ++node) start(node, {});
    view_.epoch = view_.change = 1;
    view_.primary = 1;
    for (NodeId node = 1; node <= kLiar; ++node) view_.members.push_back({node, 1});
    joined_.assign(kLiar + 1, 0);
    tell_view();
    deliver_all();
  }

  void run() {
    for (size_t i = 0; i < kStepsMax && !in_.empty(); ++i) step();
    for (int i = 0; i < 20; ++i) pass(30 * kMillisecond);
  }

 private:
  Node& at(NodeId node) { return nodes_[node - 1]; }
  Replica& replica(NodeId node) { return *at(node).replica; }
  [[nodiscard]] NodeId honest() { return 1 + in_.pick(kHonest); }

  void start(NodeId node, Replica::Restart restart) {
    at(node).replica = std::make_unique<Replica>(options_, ReplicaId{node, 1}, std::move(restart), now_);
  }

  void step() {
    switch (in_.pick(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: return lie();
      case 6: return propose();
      case 7: return deliver_all();
      case 8:
        for (size_t count = 1 + in_.pick(4); count > 0; --count) deliver();
        return;
      case 9:
        if (!under_way_.empty()) under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(pick_packet()));
        return;
      case 10: return pass(static_cast<DurationNs>(in_.byte()) * kMillisecond);
      case 11: return sync(honest());
      case 12: return change_view();
      case 13: return restart(honest());
      case 14: return fail_peer();
      case 15: return refuse();
      case 16: return trim(honest());
      case 17: return confirm();
      case 18: slow_disks_ = in_.flag(); return;
      default: return tell_view_to(honest());
    }
  }

  // --- What a replica asks for

  template <typename Input>
  void give(NodeId node, const Input& input, const Packet* packet = nullptr) {
    ReplicaOutput out;
    const uint64_t committed = replica(node).commit_index();
    const uint64_t last = replica(node).last_index();
    input(replica(node), out);
    SKUA_CHECK(out.messages.size() + out.sends.size() + out.reports.size() <= kOutputMax, "one message makes many");
    SKUA_CHECK(!out.truncate_after || *out.truncate_after >= committed, "what is committed is to be forgotten");
    SKUA_CHECK(!out.truncate_after || *out.truncate_after < last, "what is not there is to be forgotten");
    SKUA_CHECK(replica(node).commit_index() >= committed, "the commit index went back");
    SKUA_CHECK(!out.failed, "a log that refuses nothing lacks what is committed");
    take(node, out, packet);
  }

  void take(NodeId node, const ReplicaOutput& out, const Packet* packet) {
    Node& self = at(node);
    if (out.truncate_after) shorten(self, *out.truncate_after);
    if (out.accept_first != 0) {
      const auto& append = std::get<Append>(packet->message);
      SKUA_CHECK(out.accept_first == self.log.size(), "entries that do not follow the last one");
      for (uint64_t i = out.accept_first - append.prev.index - 1; i < append.epochs.size(); ++i) {
        self.log.push_back(packet->contents[i]);
      }
    }
    if (out.append_barrier) self.log.push_back(++last_content_);
    SKUA_CHECK(self.log.size() == replica(node).last_index() + 1, "log and replica do not agree about the end");
    check_commits(node);
    if (out.persist_view) {
      SKUA_CHECK(out.persist_view->epoch <= view_.epoch, "a view that the control plane did not make");
      self.persisted = *out.persist_view;
      to_persist_.emplace_back(node, out.persist_view->epoch);
    }
    for (const ReplicaOutput::Envelope& envelope : out.messages) send({node, envelope.to, envelope.message});
    for (const ReplicaOutput::Send& send_out : out.sends) {
      Packet append{node, send_out.to, replica(node).make_append(send_out.first, send_out.last)};
      for (uint64_t index = send_out.first; index <= send_out.last; ++index) append.contents.push_back(self.log[index]);
      send(std::move(append));
    }
    for (const ReplicaReport& report : out.reports) note(node, report);
    if (out.fetch_snapshot) copy_to(node);
    if (out.fetch_view && !quiet_) tell_view_to(node);
    persist();
    if (!slow_disks_) sync(node);
  }

  void shorten(Node& self, uint64_t last) {
    self.log.resize(last + 1);
    self.written = std::min(self.written, last);
    self.durable = std::min(self.durable, last);
  }

  void persist() {
    while (!to_persist_.empty()) {
      const auto [node, epoch] = to_persist_.front();
      to_persist_.pop_front();
      give(node, [&](Replica& replica, ReplicaOutput& out) { replica.view_persisted(epoch, now_, out); });
    }
  }

  void sync(NodeId node) {
    Node& self = at(node);
    const uint64_t last = self.log.size() - 1;
    if (self.written == last && self.durable == last) return;
    self.written = last;
    if (!slow_disks_ || in_.flag()) self.durable = last;
    const LogLevels levels{last, self.written, self.durable};
    give(node, [&](Replica& replica, ReplicaOutput& out) { replica.log_progress(levels, now_, out); });
  }

  /// Of what honest replicas have committed there is one version.
  void check_commits(NodeId node) {
    Node& self = at(node);
    SKUA_CHECK(replica(node).commit_index() < self.log.size(), "what is committed is not there");
    while (self.committed < replica(node).commit_index()) {
      const uint64_t content = self.log[++self.committed];
      if (forges_) continue;
      if (self.committed < committed_.size()) {
        SKUA_CHECK(committed_[self.committed] == content, "two replicas committed different entries");
      } else {
        SKUA_CHECK(self.committed == committed_.size(), "a replica commits what the primary has not");
        committed_.push_back(content);
      }
    }
  }

  // --- The network

  void send(Packet packet) {
    if (packet.to > kHonest || packet.to == 0) return;
    under_way_.push_back(std::move(packet));
    if (under_way_.size() > kUnderWayMax) under_way_.pop_front();
  }
  [[nodiscard]] size_t pick_packet() { return in_.pick(2) == 0 ? 0 : in_.byte() % under_way_.size(); }

  void deliver() {
    if (under_way_.empty()) return;
    const size_t which = pick_packet();
    const Packet packet = std::move(under_way_[which]);
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(which));
    hear(packet);
  }
  void deliver_all() {
    for (size_t i = 0; i < kUnderWayMax && !under_way_.empty(); ++i) {
      const Packet packet = std::move(under_way_.front());
      under_way_.pop_front();
      hear(packet);
    }
  }
  void hear(const Packet& packet) {
    if (const auto* heartbeat = std::get_if<Heartbeat>(&packet.message)) sent_ns_ = heartbeat->sent_ns;
    give(
        packet.to,
        [&](Replica& replica, ReplicaOutput& out) {
          replica.on_message({packet.from, 1}, packet.message, now_, out);
        },
        &packet);
  }

  void lie() {
    Packet packet;
    packet.to = honest();
    const NodeId liars = forges_ ? kStranger : kStranger - kHonest;
    packet.from = kStranger - in_.pick(liars);
    const Replica& to = replica(packet.to);
    packet.message = make_message(in_, in_.flag() ? to.view() : view_, to.last_index(), sent_ns_);
    if (const auto* append = std::get_if<Append>(&packet.message)) {
      for (size_t i = 0; i < append->epochs.size(); ++i) packet.contents.push_back(++last_content_);
    }
    if (in_.seldom()) return send(std::move(packet));
    hear(packet);
  }

  // --- What else happens

  void propose() {
    if (view_.primary == 0 || !replica(view_.primary).can_propose()) return;
    const auto level = *durability_of_code(in_.pick(3));
    Node& self = at(view_.primary);
    if (replica(view_.primary).view().epoch != view_.epoch || self.log.size() > 200) return;
    self.log.push_back(++last_content_);
    give(view_.primary, [&](Replica& replica, ReplicaOutput& out) { replica.propose(level, now_, out); });
  }

  void pass(DurationNs time) {
    now_ += time;
    for (NodeId node = 1; node <= kHonest; ++node) {
      if (slow_disks_ && in_.flag()) sync(node);
      give(node, [&](Replica& replica, ReplicaOutput& out) {
        static_cast<void>(replica.may_serve_read(now_));
        static_cast<void>(replica.needed_from());
        replica.tick(now_, out);
      });
    }
    deliver_all();
  }

  void confirm() {
    for (NodeId node = 1; node <= kHonest; ++node) {
      if (!replica(node).open()) continue;
      give(node, [](Replica& replica, ReplicaOutput& out) { static_cast<void>(replica.begin_confirm(out)); });
    }
  }

  void fail_peer() {
    const NodeId node = honest();
    const NodeId peer = 1 + in_.pick(kStranger);
    const bool ready = in_.flag();
    give(node, [&](Replica& replica, ReplicaOutput& out) {
      ready ? replica.peer_ready(peer, now_, out) : replica.peer_failed(peer, now_, out);
    });
  }
  void refuse() {
    const NodeId node = honest();
    replica(node).send_refused(1 + in_.pick(kStranger), 1 + in_.byte() % at(node).log.size());
  }
  void trim(NodeId node) {
    const uint64_t first =
        std::min<uint64_t>(replica(node).needed_from() + in_.pick(3), replica(node).commit_index() + 1);
    if (first > replica(node).log().base().index) replica(node).set_first_available(first);
  }

  /// Its process ends in order: all of its log is there, and nothing is under way any more.
  void restart(NodeId node) {
    Node& self = at(node);
    std::erase_if(under_way_, [node](const Packet& packet) { return packet.from == node || packet.to == node; });
    EpochHistory runs = replica(node).log();
    self.written = self.durable = runs.last_index();
    start(node, {self.persisted, std::move(runs), std::max(self.committed, replica(node).log().base().index), 0});
    tell_view_to(node);
  }

  /// The primary's state as it is.
  void copy_to(NodeId node) {
    if (view_.primary == 0 || view_.primary == node) return;
    Replica& source = replica(view_.primary);
    const uint64_t index = at(view_.primary).committed;
    const EntryId base{index, source.log().epoch_of(index).value_or(source.log().base().epoch)};
    if (index < source.log().base().index) return;
    const SnapshotFit fit = replica(node).snapshot_fit(base);
    if (fit == SnapshotFit::kNone) return;
    Node& self = at(node);
    const std::vector<uint64_t>& theirs = at(view_.primary).log;
    if (fit == SnapshotFit::kReplacesLog) {
      self.log.assign(theirs.begin(), theirs.begin() + static_cast<ptrdiff_t>(index) + 1);
      self.written = self.durable = 0;
    }
    self.written = std::max(self.written, index);
    self.durable = std::max(self.durable, index);
    for (uint64_t i = self.committed + 1; i <= index; ++i) self.log[i] = theirs[i];
    give(node, [&](Replica& replica, ReplicaOutput& out) { replica.install_snapshot(base, now_, out); });
  }

  // --- The control plane

  void tell_view() {
    for (NodeId node = 1; node <= kHonest; ++node) tell_view_to(node);
  }
  void tell_view_to(NodeId node) {
    give(node, [&](Replica& replica, ReplicaOutput& out) {
      quiet_ = true;
      replica.on_view(view_, now_, out);
      quiet_ = false;
      out.fetch_view = false;
    });
  }

  void note(NodeId node, const ReplicaReport& report) {
    if (report.epoch != view_.epoch || node != view_.primary || report.kind != ReplicaReport::Kind::kJoinReady) return;
    const Learner* const learner = learner_of(view_, report.node);
    if (learner != nullptr && learner->join == report.join && report.node <= kLiar) joined_[report.node] = report.join;
  }

  /// Members stay, go, or come back after they have learned; the primary is an honest member of the last view.
  void change_view() {
    View next = view_;
    ++next.change;
    if (in_.pick(3) == 0) {  // learners only
      for (NodeId node = 1; node <= kLiar; ++node) {
        if (next.is_member({node, 1}) || learner_of(next, node) != nullptr) continue;
        next.learners.push_back({{node, 1}, ++last_join_});
      }
      std::ranges::sort(next.learners, {}, [](const Learner& learner) { return learner.id.node; });
    } else {
      ++next.epoch;
      next.members.clear();
      next.learners.clear();
      std::vector<NodeId> candidates;
      for (NodeId node = 1; node <= kLiar; ++node) {
        const Learner* const learner = learner_of(view_, node);
        const bool has_joined = learner != nullptr && learner->join != 0 && joined_[node] == learner->join;
        if (view_.is_member({node, 1}) && node <= kHonest) candidates.push_back(node);
        if ((view_.is_member({node, 1}) || has_joined) && in_.pick(4) != 0) next.members.push_back({node, 1});
      }
      next.primary = candidates[in_.pick(candidates.size())];
      if (!next.is_member({next.primary, 1})) next.members.push_back({next.primary, 1});
      std::ranges::sort(next.members, {}, [](const ReplicaId& member) { return member.node; });
    }
    next.read_anywhere = in_.flag();
    next.min_insync = 1;
    view_ = next;
    const size_t told = 1 + in_.pick(kHonest);
    for (size_t i = 0; i < told; ++i) tell_view_to(honest());
  }

  const bool forges_;
  FuzzInput in_;
  const ReplicaOptions options_ = replica_options();
  TimeNs now_ = kSecond;
  TimeNs sent_ns_ = 0;
  std::array<Node, kHonest> nodes_;
  std::deque<Packet> under_way_;
  std::deque<std::pair<NodeId, uint64_t>> to_persist_;
  View view_;
  std::vector<uint64_t> joined_;
  uint64_t last_join_ = 0;
  uint64_t last_content_ = 0;
  std::vector<uint64_t> committed_ = {0};
  bool slow_disks_ = false;
  bool quiet_ = false;
};

}  // namespace
}  // namespace skua::kv::fuzz

/// What an input frees is kept for some of the next ones, not for thousands: fresh memory is slow.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "quarantine_size_mb=16";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  skua::kv::fuzz::Script(data[0] % 4 == 3, std::as_bytes(std::span(data + 1, size - 1))).run();
  return 0;
}
