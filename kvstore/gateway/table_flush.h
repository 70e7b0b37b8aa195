// TableFlush: the steps of removing all keys of a database, for handlers of both protocols. Pure.
//
//   while has_more():  page() --> the store --> take() --> removals() --> the store --> add_removed()
#ifndef SKUA_KVSTORE_GATEWAY_TABLE_FLUSH_H_
#define SKUA_KVSTORE_GATEWAY_TABLE_FLUSH_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// Not atomic: keys that others write meanwhile may stay or go. Thread: one.
class TableFlush {
 public:
  [[nodiscard]] bool has_more() const { return has_more_; }
  /// The next keys. Valid until take().
  [[nodiscard]] StoreRequest page() const;
  /// Takes the result of page(), which did not fail and must live until the removals are done.
  void take(const StoreResult& page);
  /// Of the keys that were taken last: none, or as many as a command may ask at once.
  [[nodiscard]] std::span<const StoreRequest> removals() const { return removals_; }
  void add_removed(std::span<const StoreResult> results);
  [[nodiscard]] const WriteTally& tally() const { return tally_; }
  /// Keys that were found so far.
  [[nodiscard]] size_t key_count() const { return key_count_; }

 private:
  std::string start_;
  bool has_more_ = true;
  std::vector<StoreRequest> removals_;
  WriteTally tally_;
  size_t key_count_ = 0;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_TABLE_FLUSH_H_
