// Transaction: what a connection watches (WATCH) and queues (MULTI), until EXEC.
//
// Transactions are optimistic: nothing is locked. EXEC evaluates the queued commands in the gateway, and asks the
// cluster for one BATCH that writes what they change, if no key that they looked at has changed meanwhile.
//
//   WATCH k        reads the version of k (0: k is absent), and keeps it
//   MULTI          from now on commands are queued. A command that does not exist, has a wrong number of words, or is
//                  not possible inside MULTI gets its error at once; EXEC answers EXECABORT then
//   EXEC           1. reads the keys of the queued commands with their versions
//                  2. runs the handlers of the commands, one after the other, against a TransactionStore: it answers
//                     from what was read, and keeps what is written. Handlers do not know where they run
//                  3. asks for a BATCH: for each key that was read or watched its version as a condition, and for each
//                     key that was changed one PUT, REMOVE or EXPIRE
//                  4. The batch is applied: the replies of the handlers are EXEC's reply.
//                     A watched key has another version: nothing is written, and the reply is null.
//                     A key that was only read has another version: again from 1, for kContestMsMax at most
//   DISCARD, UNWATCH, RESET   forget
//
// All conditions hold at one moment, that of the batch. So a transaction that only reads is a snapshot, too. A key that
// is written without a look at it (SET k v) needs no condition, and is not read. If the client of the cluster cannot
// tell whether the batch was applied, EXEC replies with "outcome unknown", like any write.
//
// A batch is atomic in one shard. If the keys are in several shards, EXEC replies with CROSSSLOT, and nothing is
// written.
//
// Order. Commands of one connection run side by side (hazards.h), but WATCH, MULTI, EXEC and DISCARD mean something by
// their order. So the part of each that concerns the Transaction happens when the command comes: the session has the
// Transaction, WATCH enters its keys, and EXEC takes the Transaction away. WATCH and EXEC then wait for their turn
// (CommandRun::turn) as writes of their keys: commands behind WATCH read after it, and EXEC finds the versions.
//
// Bounds. kQueuedCommandsMax, kQueuedBytesMax and kWatchedKeysMax for each connection. What is queued counts as held by
// the thread (GatewayContext::held_bytes); if there is no room, the command is refused, and EXEC answers EXECABORT. The
// connection is read on all the same: EXEC must come in for the memory to be given back.
#ifndef SKUA_KVSTORE_GATEWAY_TRANSACTION_H_
#define SKUA_KVSTORE_GATEWAY_TRANSACTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skua::kv::gateway {

class CommandRun;

inline constexpr size_t kQueuedCommandsMax = 1024;
inline constexpr size_t kQueuedBytesMax = size_t{32} << 20;
inline constexpr size_t kWatchedKeysMax = 1024;

struct WatchedKey {
  uint32_t database = 0;
  std::string key;
  uint64_t version = 0;  ///< set by WATCH when its answer comes; 0: the key is absent
};

/// Thread: one. The GatewayContext of its commands must outlive it.
class Transaction {
 public:
  Transaction();
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // --- WATCH

  /// A key that is watched already stays as it is. False: kWatchedKeysMax.
  [[nodiscard]] bool watch(uint32_t database, std::string_view key);
  /// In the order of their coming. A key stays where it is.
  [[nodiscard]] std::deque<WatchedKey>& watched() { return watched_; }
  [[nodiscard]] const std::deque<WatchedKey>& watched() const { return watched_; }
  /// Nothing: the key is not watched.
  [[nodiscard]] std::optional<uint64_t> watched_version(uint32_t database, std::string_view key) const;
  /// WATCH could not do what it was asked for: EXEC does as if a key had changed.
  void fail_watch() { has_failed_watch_ = true; }
  [[nodiscard]] bool has_failed_watch() const { return has_failed_watch_; }

  // --- MULTI

  void open() { is_open_ = true; }
  /// MULTI has come.
  [[nodiscard]] bool is_open() const { return is_open_; }
  /// Takes a command that has begun and not started. False: there are too many, or too many bytes. After abort() it
  /// forgets the command.
  [[nodiscard]] bool queue(std::unique_ptr<CommandRun> command);
  /// Forgets the commands, if it is open: EXEC answers EXECABORT.
  void abort();
  [[nodiscard]] bool is_aborted() const { return is_aborted_; }
  [[nodiscard]] std::span<const std::unique_ptr<CommandRun>> commands() const { return commands_; }

  /// About what the object takes.
  [[nodiscard]] size_t memory_bytes() const { return watched_bytes_ + queued_bytes_; }

 private:
  void forget_commands();

  std::deque<WatchedKey> watched_;
  std::vector<std::unique_ptr<CommandRun>> commands_;
  size_t watched_bytes_ = 0;
  size_t queued_bytes_ = 0;
  bool has_failed_watch_ = false;
  bool is_open_ = false;
  bool is_aborted_ = false;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_TRANSACTION_H_
