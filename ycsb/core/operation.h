// An operation and its outcome as data: the workload decides what is to be done, the driver carries
// it to a binding, the binding answers. No part knows how the others work.
//
//   CoreWorkload --fills--> Operation --submit--> BindingSession --completes with--> OpResult
//
// An Operation is a reusable slot: its strings and vectors keep their memory, so that a slot that
// has been used a few times no longer allocates.
#ifndef SKUA_YCSB_CORE_OPERATION_H_
#define SKUA_YCSB_CORE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ycsb/core/status.h"

namespace skua::ycsb {

/// What every operation of a run has in common.
struct Schema {
  std::string table;
  std::vector<std::string> field_names;
};

enum class OpKind : uint8_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite, kDelete };

/// A field to be written: an index into Schema::field_names and the new value.
struct FieldWrite {
  uint32_t field;
  std::string_view value;  // in the operation's own memory
};

/// Not copied and not moved: writes() points into it.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Bindings see every kind but kReadModifyWrite: the driver turns that into a kRead and a kUpdate
  /// of the same operation.
  OpKind kind = OpKind::kRead;
  uint64_t key_number = 0;
  /// The record's key, or where a scan starts.
  std::string key;
  /// SCAN: how many records at most.
  uint64_t scan_length = 0;
  /// READ and SCAN: all fields of the record, else those in `fields`.
  bool all_fields = true;
  /// Indices into Schema::field_names.
  std::vector<uint32_t> fields;

  /// UPDATE: the fields to replace. INSERT: all fields.
  [[nodiscard]] std::span<const FieldWrite> writes() const { return writes_; }

  /// Drops the previous writes and makes room for values of the given lengths, one per entry of
  /// `field_indices`; the values are then filled through value_room().
  void begin_writes(std::span<const uint32_t> field_indices, std::span<const uint64_t> lengths);
  void clear_writes() { writes_.clear(); }
  /// Where the i-th write's value goes. kValueSlack bytes behind it may be overwritten if values
  /// are filled in rising order.
  [[nodiscard]] char* value_room(size_t i) { return bytes_.data() + (writes_[i].value.data() - bytes_.data()); }

  static constexpr size_t kValueSlack = 8;

 private:
  std::vector<FieldWrite> writes_;
  std::vector<char> bytes_;
};

struct NamedValue {
  std::string_view name;
  std::string_view value;
};

/// Valid during the completion call only.
struct OpResult {
  OpResult() = default;
  explicit OpResult(Status outcome) : status(outcome) {}

  Status status = Status::kOk;
  /// SCAN: records found.
  uint64_t row_count = 0;
  /// READ: the record's fields, only if the session was asked to return them.
  std::span<const NamedValue> fields;
  /// For a failed operation: what the store said, or empty.
  std::string_view message;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_OPERATION_H_
