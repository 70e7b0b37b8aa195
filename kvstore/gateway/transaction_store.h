// TransactionStore: the store that the commands of a transaction see while EXEC evaluates them. It answers from what
// EXEC has read, and keeps what they write. Pure.
//
//   needs(request)? --> EXEC reads the key --> learn()
//   run(request)    --> the result, as the cluster would give it
//   batch()         --> what the cluster has to do so that all of that becomes true
#ifndef SKUA_KVSTORE_GATEWAY_TRANSACTION_STORE_H_
#define SKUA_KVSTORE_GATEWAY_TRANSACTION_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/store_request.h"
#include "kvstore/gateway/transaction.h"

namespace skua::kv::gateway {

/// Of one table. Thread: one.
class TransactionStore {
 public:
  /// run() must know the key's record in the cluster before.
  [[nodiscard]] bool needs(const StoreRequest& request) const;
  /// The result of a GET with ttl and mark: OK or NOT_FOUND. If the key is known already, nothing happens.
  void learn(std::string_view key, const StoreResult& got);
  /// Requests for one key: GET and writes. Others are refused. A value that the result has is valid until
  /// end_command().
  [[nodiscard]] StoreResult run(const StoreRequest& request);
  /// The command whose requests came last is done.
  void end_command() { replaced_.clear(); }
  /// Of all values that are kept.
  [[nodiscard]] size_t value_bytes() const { return value_bytes_; }
  /// Of all values that commands made, were learned, or were read, each time. That takes time of the thread.
  [[nodiscard]] size_t touched_bytes() const { return touched_bytes_; }

  /// The operations of the BATCH, at most one for each key; empty: nothing was used or written, and nothing is watched.
  /// The views in it are valid as long as the store and `transaction` are unchanged.
  [[nodiscard]] std::vector<StoreRequest> batch(const Transaction& transaction, uint32_t database) const;

 private:
  enum class Change : uint8_t { kNone, kExpiry, kValue, kRemoved };
  struct Record {
    bool is_known = false;           // what the cluster has
    bool is_used = false;            // a command has seen what the cluster has
    uint64_t cluster_version = 0;    // 0: absent
    bool has_cluster_expiry = true;  // no command has changed when the key expires

    // As the commands have left it. Version 0: absent.
    Change change = Change::kNone;
    uint64_t version = 0;
    std::shared_ptr<const std::string> value;
    RecordMark mark;
    std::optional<uint64_t> ttl_ms;
  };

  [[nodiscard]] static StoreRequest change_of(std::string_view key, const Record& record);
  void set_value(Record& record, std::string value);
  void remove(Record& record);
  [[nodiscard]] StoreResult read(const Record& record);
  [[nodiscard]] StoreResult write(const StoreRequest& request, Record& record);
  [[nodiscard]] StoreResult add(int64_t delta, Record& record);
  [[nodiscard]] StoreResult edit(const StoreRequest& request, Record& record);

  std::map<std::string, Record, std::less<>> records_;
  /// Values that the command has seen perhaps, and that are no record's any more.
  std::vector<std::shared_ptr<const std::string>> replaced_;
  size_t value_bytes_ = 0;
  size_t touched_bytes_ = 0;
  /// Of the next record that is written here. The cluster's versions are not as high.
  uint64_t next_version_ = uint64_t{1} << 63;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_TRANSACTION_STORE_H_
