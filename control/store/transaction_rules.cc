#include "control/store/transaction_rules.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

absl::Status check_key(const std::string& key) {
  if (!key.empty() && key.size() <= kStoreKeyMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a metadata key of ", key.size(), " bytes; it must have 1 to ", kStoreKeyMax));
}

absl::Status check_sizes(const std::vector<Operation>& operations) {
  if (operations.size() > kTransactionOpsMax) {
    return absl::InvalidArgumentError(absl::StrCat("a metadata transaction of ", operations.size(),
                                                   " operations; the limit is ", kTransactionOpsMax));
  }
  for (const Operation& operation : operations) {
    if (auto status = check_key(operation.key); !status.ok()) return status;
    if (operation.value.size() > kStoreValueMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a metadata value of ", operation.value.size(), " bytes; the limit is ", kStoreValueMax));
    }
  }
  return absl::OkStatus();
}

/// Each key that is put must be named by no other operation of the list.
absl::Status check_conflicts(const std::vector<Operation>& operations) {
  const auto conflict = [](const std::string& key) {
    return absl::InvalidArgumentError(absl::StrCat("a metadata transaction puts ", key, " and changes it once more"));
  };
  std::set<std::string> puts;
  for (const Operation& operation : operations) {
    if (operation.kind == Operation::Kind::kPut && !puts.insert(operation.key).second) {
      return conflict(operation.key);
    }
  }
  for (const Operation& operation : operations) {
    if (operation.kind == Operation::Kind::kDelete && puts.contains(operation.key)) {
      return conflict(operation.key);
    }
    if (operation.kind == Operation::Kind::kDeletePrefix) {
      const auto first = puts.lower_bound(operation.key);
      if (first != puts.end() && first->starts_with(operation.key)) return conflict(*first);
    }
  }
  return absl::OkStatus();
}

absl::Status check_operations(const std::vector<Operation>& operations) {
  if (auto status = check_sizes(operations); !status.ok()) return status;
  return check_conflicts(operations);
}

}  // namespace

absl::Status check_transaction(const Transaction& transaction) {
  if (transaction.compares.size() > kTransactionOpsMax) {
    return absl::InvalidArgumentError(absl::StrCat("a metadata transaction of ", transaction.compares.size(),
                                                   " compares; the limit is ", kTransactionOpsMax));
  }
  for (const Compare& compare : transaction.compares) {
    if (auto status = check_key(compare.key); !status.ok()) return status;
  }
  if (auto status = check_operations(transaction.then_ops); !status.ok()) return status;
  return check_operations(transaction.else_ops);
}

absl::Status compacted_error(uint64_t wanted, uint64_t oldest) {
  const std::string gone = oldest == 0 ? "metadata history" : absl::StrCat("metadata history before revision ", oldest);
  return absl::OutOfRangeError(absl::StrCat(gone, " was compacted, revision ", wanted,
                                            " was asked for. Read everything again and watch from there"));
}

}  // namespace skua::control
