// SCAN: asks each shard for one page at a time, and merges the pages in key order (scan_merge.h).
#ifndef SKUA_KVSTORE_CLIENT_SCAN_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_SCAN_OPERATION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/parted_operation.h"
#include "kvstore/client/scan_merge.h"

namespace skua::kv {

class ScanOperation final : public PartedOperation {
 public:
  /// INVALID_ARGUMENT: a limit is passed, or an option is set that only GET takes.
  [[nodiscard]] absl::Status accept(const ScanCall& call, ScanCallback&& callback);
  void finish(Outcome&& outcome) override;

  // For the parts, which read one page each.
  [[nodiscard]] absl::StatusOr<ByteSpan> encode_part(const OperationPart& page, const Route& route) override;
  [[nodiscard]] absl::Status take_reply(OperationPart& page, rpc::Lease&& lease) override;

 protected:
  void divide(const KeyPlacement& placement) override;
  bool start_part() override;
  void reset() override;

 private:
  void note_count_token(uint32_t shard, const Token& token);
  [[nodiscard]] absl::Status add_count(const OperationPart& page, const ScanReply& reply);
  [[nodiscard]] absl::Status add_rows(const OperationPart& page, const ScanReply& reply, rpc::Lease&& lease);
  void clear_rows();

  std::string start_;
  std::string end_;
  uint32_t limit_ = 0;
  ScanRequest request_;  // what all pages' have in common; views into start_ and end_
  // If it only counts:
  std::vector<std::string> tokens_;  // of each shard: where its next page starts
  std::vector<uint32_t> uncounted_;  // shards of which a page is to be asked for
  ScanMerge merge_;
  ScanResult result_;
  ScanCallback done_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_SCAN_OPERATION_H_
