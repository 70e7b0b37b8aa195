// What a command asks of the store, and what the store says. Values: the commands do not know who carries them out.
// That is StoreClient in the gateway, and a map in tests. Whether a password is right (kPassword) is asked in the same
// way, and PasswordChecker answers.
#ifndef SKUA_KVSTORE_GATEWAY_STORE_REQUEST_H_
#define SKUA_KVSTORE_GATEWAY_STORE_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/client/types.h"

namespace skua::kv::gateway {

class CommandArguments;
struct ClientUser;

struct StoreRequest {
  enum class Kind : uint8_t {
    kGet,
    kPut,
    kRemove,
    kAdd,
    kAppend,
    kExpire,
    kScan,
    kEdit,
    kBatch,
    kCheck,
    kPuts,
    kPassword
  };

  // Views live until the result is there.
  Kind kind = Kind::kGet;
  std::string_view key = {};  ///< SCAN: the first key of the range; empty: the table's first
  /// PUT, APPEND; PASSWORD: what the client says; EDIT: the fields to set and to remove, as an edit (codec/row.h).
  std::string_view value = {};
  /// PUT: of the record: memcached's flags, and whether the value is a hash of Redis's. EDIT: only of such a hash.
  RecordMark mark = {};
  /// Writes: only if the key has this version; only if it is absent; only if it is there. At most one of the three.
  std::optional<uint64_t> if_version = {};
  bool if_absent = false;
  bool if_present = false;
  uint64_t ttl_ms = 0;         ///< PUT, EXPIRE; 0: the key does not expire
  bool keep_ttl = false;       ///< PUT: the key keeps the time to live that it has; ttl_ms is 0
  bool tells_version = false;  ///< PUT: the client is told the version, so that no other write may have the same one
  int64_t delta = 0;           ///< ADD
  bool creates = false;        ///< EDIT: an absent key counts as a row without fields
  bool with_ttl = false;       ///< GET: the result has ttl_ms
  bool with_mark = false;      ///< GET, SCAN: the result has the record's mark, or the marks of the rows
  bool drops_value = false;    ///< GET: the result has value_bytes, but not the value
  /// GET: the value is a row, and the result has at least those of its fields that have these names; none: all of it.
  std::span<const std::string_view> fields = {};
  /// GET with_mark: the command needs the value only until it has the result (OneRequest::reply).
  bool borrows_value = false;
  std::string_view end = {};  ///< SCAN: the range ends before this key; empty: with the table
  uint32_t rows_max = 0;      ///< SCAN
  bool keys_only = false;     ///< SCAN: the rows have no values
  bool count_only = false;    ///< SCAN: the result has the count of the whole range, and no rows; no rows_max
  /// BATCH: PUT, REMOVE, EXPIRE and CHECK with their conditions, of different keys of one shard: all of them or none.
  /// A CHECK, which only a batch has, writes nothing: the batch is carried out only if the CHECK's condition holds.
  const std::vector<StoreRequest>* batch = nullptr;
  /// PUTS: keys and values in turn, behind a name. Each key once. They are carried out in no order, and some may fail.
  const CommandArguments* puts = nullptr;
  /// PASSWORD: whose; null: of nobody. The result is kOk, kNotFound (it is wrong) or kNotApplied (too many ask).
  const ClientUser* user = nullptr;
  /// Number of the database; the connection fills it in.
  uint32_t database = 0;

  /// A PUT whose outcome does not depend on what was there.
  [[nodiscard]] bool is_blind_put() const {
    return kind == Kind::kPut && !keep_ttl && !if_absent && !if_present && !if_version.has_value();
  }
};

struct StoreResult {
  enum class Status : uint8_t {
    kOk,
    kNotFound,      // also: if_present, and the key is absent
    kExists,        // if_absent, and the key is there
    kOtherVersion,  // if_version, and the key has another one, or is absent
    kNotANumber,    // ADD
    kOverflow,      // ADD
    kNotARow,       // EDIT: the key does not hold a row with the mark of rows. GET of fields: not a row
    // Failures, and nothing else, from here to the end: is_failure() compares.
    kNotApplied,  // it failed, and certainly nothing was written
    kUnknown,     // it failed, and may have been carried out
    kRefused,     // it cannot be done, now or later: beyond a limit, for example
    kNoRight,     // the gateway's identity must not do it
    kManyShards,  // BATCH: its keys are in several shards; nothing was written
  };

  struct FailedPut {
    uint32_t index;  ///< among the PUTs of the request
    Status status;   ///< is_failure()
    std::string text;
  };

  Status status = Status::kOk;
  uint64_t version = 0;                 ///< GET: of the value
  RecordMark mark = {};                 ///< GET with_mark: of the record
  ValueView value = {};                 ///< GET; empty if the request drops the value
  size_t value_bytes = 0;               ///< GET: the value's size, for handlers; not for OneRequest
  bool is_borrowed = false;             ///< the value is valid only until the command has taken the result
  std::optional<uint64_t> ttl_ms = {};  ///< GET with_ttl; nothing: the key does not expire
  int64_t number = 0;                   ///< ADD: the sum
  PatchCounts fields = {};              ///< EDIT: what changed
  size_t failed_operation = 0;          ///< BATCH whose conditions do not hold: the first that does not
  std::string text = {};                ///< of a failure
  /// PUTS, in the order of the requests: those that failed. The status is kOk nevertheless.
  std::vector<FailedPut> failed_puts = {};
  std::unique_ptr<ScanResult> scan = {};  ///< SCAN

  [[nodiscard]] bool ok() const { return status == Status::kOk; }
  [[nodiscard]] bool is_failure() const { return status >= Status::kNotApplied; }
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_STORE_REQUEST_H_
