// Hazards: which commands of one connection have to wait for which. Pure.
//
// A write becomes visible when its answer comes, and answers of different keys come in any order. Redis's clients may
// send commands without waiting for answers, and expect them to act in their order:
//
//   SET a 1     GET a     GET b     SET b 2     DBSIZE     GET c
//      ^----------+         ^----------+           |         |
//                                   all of them <--+ <-------+
//
// A read waits for the writes to its keys before it; a write waits for the reads and writes of its keys before it. A
// command over a whole table waits for all before it, and all after it wait for that command. Everything else goes on
// side by side.
//
// Looking at keys costs time. It is left out for reads while no write runs, and for a command that is alone. The keys
// are entered later, when a command comes that needs them. So a client that only reads, or that waits for each answer,
// pays nothing.
//
// Keys are known by their hashes. Two keys with the same hash wait for each other without need, which does no harm.
#ifndef SKUA_KVSTORE_GATEWAY_HAZARDS_H_
#define SKUA_KVSTORE_GATEWAY_HAZARDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

namespace skua::kv::gateway {

/// A command's part. The owner sets the first two before Hazards::add().
struct HazardNode {
  HazardNode() = default;
  HazardNode(const HazardNode&) = delete;
  HazardNode& operator=(const HazardNode&) = delete;
  virtual ~HazardNode() = default;

  bool is_write = false;
  bool is_whole_table = false;
  absl::InlinedVector<uint64_t, 1> key_hashes;

  /// Appends the hashes of the command's keys to key_hashes, unless they are there already. Hazards calls it at most
  /// once, when the keys make a difference.
  virtual void name_keys() {}

  /// Clears the hashes and the dependents, and gives back memory if it is much.
  void forget_keys();

  /// Commands that it still waits for.
  uint32_t blocker_count = 0;
  std::vector<HazardNode*> dependents;
  bool is_apart = false;  // its keys are not entered
  size_t place = 0;       // among the unfinished, or among those apart
};

/// One per connection. Nodes must stay where they are from add() to finish().
class Hazards {
 public:
  /// Adds a command behind all that were added. It may start now if blocker_count is 0.
  void add(HazardNode& node);
  /// The command is done. Appends those that waited for nothing else to `ready`. Commands that waited for the same
  /// command come in the order of add().
  void finish(HazardNode& node, std::vector<HazardNode*>& ready);

  [[nodiscard]] size_t unfinished_count() const { return unfinished_.size() + apart_.size(); }
  [[nodiscard]] size_t key_count() const { return keys_.size(); }

 private:
  struct KeyUse {
    HazardNode* writer = nullptr;                 // the latest, unless it is done
    absl::InlinedVector<HazardNode*, 2> readers;  // since the latest writer, unless they are done
  };

  static void depend(HazardNode& node, HazardNode& on);
  static void push(std::vector<HazardNode*>& list, HazardNode& node);
  void enter_those_apart();
  void enter_keys(HazardNode& node);
  void use(HazardNode& node, uint64_t key_hash);
  void end_use(const HazardNode& node, uint64_t key_hash);

  absl::flat_hash_map<uint64_t, KeyUse> keys_;
  std::vector<HazardNode*> unfinished_;  // but for those apart
  std::vector<HazardNode*> apart_;       // whose keys are not entered: reads, or one write without others
  size_t writer_count_ = 0;              // of the unfinished, and of those apart, that write keys
  HazardNode* barrier_ = nullptr;        // the latest whole-table command, unless it is done
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_HAZARDS_H_
