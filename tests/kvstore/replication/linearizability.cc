#include "tests/kvstore/replication/linearizability.h"

#include <algorithm>
#include <set>
#include <utility>

namespace skua::kv::sim {
namespace {

constexpr size_t kSlots = 64;
constexpr size_t kPossibilitiesMax = 100'000;

using Possibility = std::pair<int64_t, uint64_t>;  // value, slots whose operation has taken effect

class Checker {
 public:
  explicit Checker(const std::vector<HistoryOp>& history) : history_(history) {}

  Linearizable run(size_t* culprit) {
    struct Event {
      uint64_t at;
      size_t op;
      bool answer;
    };
    std::vector<Event> events;
    for (size_t i = 0; i < history_.size(); ++i) {
      events.push_back({history_[i].called, i, false});
      if (history_[i].answered != HistoryOp::kNever) events.push_back({history_[i].answered, i, true});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
    for (const Event& event : events) {
      if (!event.answer) {
        if (!open(event.op)) return Linearizable::kTooComplex;
        continue;
      }
      answer(slot_of(event.op));
      if (possible_.size() > kPossibilitiesMax || too_many_) return Linearizable::kTooComplex;
      if (!possible_.empty()) continue;
      if (culprit != nullptr) *culprit = event.op;
      return Linearizable::kNo;
    }
    return Linearizable::kYes;
  }

 private:
  bool open(size_t op) {
    const HistoryOp& opened = history_[op];
    if (opened.kind == OpKind::kGet && opened.answered == HistoryOp::kNever) return true;  // tells nothing
    const auto free = std::find(slots_.begin(), slots_.end(), kFree);
    if (free != slots_.end()) {
      *free = op;
      return true;
    }
    if (slots_.size() == kSlots) return false;
    slots_.push_back(op);
    return true;
  }

  size_t slot_of(size_t op) const {
    return static_cast<size_t>(std::find(slots_.begin(), slots_.end(), op) - slots_.begin());
  }

  /// The value behind it; nullopt: it cannot have had that result here.
  static std::optional<int64_t> take_effect(const HistoryOp& op, int64_t value) {
    const bool open_ended = op.answered == HistoryOp::kNever;
    switch (op.kind) {
      case OpKind::kPut: return op.argument;
      case OpKind::kGet:
        if (op.result != value) return std::nullopt;
        return value;
      case OpKind::kAdd:
        if (!open_ended && op.result != value + op.argument) return std::nullopt;
        return value + op.argument;
      case OpKind::kCas: {
        const bool takes_place = value == op.expected;
        if (!open_ended && takes_place != (op.result == 1)) return std::nullopt;
        return takes_place ? op.argument : value;
      }
      case OpKind::kBarrier: break;
    }
    return std::nullopt;
  }

  void answer(size_t slot) {
    next_.clear();
    seen_.clear();
    for (const Possibility& possibility : possible_) {
      if ((possibility.second >> slot & 1U) != 0) {
        next_.insert({possibility.first, possibility.second & ~(1ULL << slot)});
      } else {
        search(possibility, slot);
      }
    }
    std::swap(possible_, next_);
    slots_[slot] = kFree;
  }

  /// Lets other open operations take effect, in every order, and then the one that is answered.
  void search(const Possibility& from, size_t slot) {
    if (too_many_ || !seen_.insert(from).second) return;
    too_many_ = seen_.size() > kPossibilitiesMax;
    if (const auto value = take_effect(history_[slots_[slot]], from.first)) next_.insert({*value, from.second});
    for (size_t other = 0; other < slots_.size(); ++other) {
      if (other == slot || slots_[other] == kFree || (from.second >> other & 1U) != 0) continue;
      const auto value = take_effect(history_[slots_[other]], from.first);
      if (value) search({*value, from.second | 1ULL << other}, slot);
    }
  }

  static constexpr size_t kFree = SIZE_MAX;

  const std::vector<HistoryOp>& history_;
  std::vector<size_t> slots_;  // open operations
  std::set<Possibility> possible_{{0, 0}};
  std::set<Possibility> next_;
  std::set<Possibility> seen_;
  bool too_many_ = false;
};

}  // namespace

Linearizable check_linearizable(const std::vector<HistoryOp>& history, size_t* culprit) {
  return Checker(history).run(culprit);
}

}  // namespace skua::kv::sim
