// Grants: which clients may read, write or scan the tables that are closed to others (control/core/grants.h), compiled
// for the path of requests.
//
//   session index --> row of its identity (SessionOwners)          worked out when the session opens, or grants change
//   shard         --> ClosedTable, or null: open (HeldShard)       likewise
//   request       --> ClosedTable::rights[row] & needed(method)    an array of bytes, no text, no memory
//
// Each identity that has a grant has a row, the same in all tables. Row 0 is for all that have none, row 1 for those
// that grants do not limit: nodes, administrators and the control plane. A table has a byte for each row up to the last
// one that has rights there. An identity of an unknown form has row 0 (no rights). An unknown method needs the rights
// of row 1.
//
// Made once for a map, and never changed. All workers share it. Thread: any.
#ifndef SKUA_KVSTORE_SERVICE_GRANTS_H_
#define SKUA_KVSTORE_SERVICE_GRANTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/methods.h"

namespace skua::kv {

/// Rights to a table, as bits.
using Rights = uint8_t;
inline constexpr Rights kRightRead = 1;
inline constexpr Rights kRightWrite = 2;
inline constexpr Rights kRightScan = 4;
/// Of those that grants do not limit.
inline constexpr Rights kRightsUnlimited = 0xff;

/// The rights that a request needs. Methods between nodes need kRightsUnlimited, which only identities that grants do
/// not limit have.
[[nodiscard]] constexpr Rights needed(Method method) {
  switch (method) {
    case Method::kGet:
    case Method::kMultiGet: return kRightRead;
    case Method::kScan: return kRightScan;
    case Method::kPut:
    case Method::kDelete:
    case Method::kPatch:
    case Method::kBatch:
    case Method::kAdd:
    case Method::kAppend:
    case Method::kExpire: return kRightWrite;
    case Method::kReplicate:
    case Method::kFetchChunk:
    case Method::kFetchTail:
    case Method::kVouch: break;
  }
  return kRightsUnlimited;
}

/// The command's word for a single right: "read".
[[nodiscard]] const char* right_name(Rights right);

/// The row of an identity.
using GrantRow = uint32_t;
inline constexpr GrantRow kRowOfNobody = 0;
inline constexpr GrantRow kRowOfUnlimited = 1;

/// A table that has grants.
struct ClosedTable {
  std::string name;
  std::vector<Rights> rights = {0, kRightsUnlimited};  ///< by row; rows beyond the end have none

  [[nodiscard]] bool allows(GrantRow row, Rights wanted) const {
    return row < rights.size() && (rights[row] & wanted) == wanted;
  }
};

/// A closed table's grants. Without any, it is closed to all clients.
struct TableGrants {
  uint32_t table_id = 0;
  std::string name;
  std::vector<std::pair<std::string, Rights>> rights;  ///< of "client/<name>"; no identity twice

  friend bool operator==(const TableGrants&, const TableGrants&) = default;
};

class Grants {
 public:
  /// No table is closed.
  Grants() = default;
  explicit Grants(const std::vector<TableGrants>& tables);

  /// The row of an identity, "role/name" or "". Cost: logarithmic.
  [[nodiscard]] GrantRow row_of(const std::string& identity) const;
  /// Null: the table is open. Valid as long as this object.
  [[nodiscard]] const ClosedTable* find(uint32_t table_id) const;

 private:
  std::map<std::string, GrantRow> rows_;
  std::map<uint32_t, ClosedTable> tables_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_GRANTS_H_
