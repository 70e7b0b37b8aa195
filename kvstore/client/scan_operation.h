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

class ScanOperation;

/// Reads one page of one shard.
class ScanPage final : public CallOperation {
 public:
  [[nodiscard]] absl::StatusOr<Request> encode(const Route& route, HeadBuffer& buffer) override;
  void on_reply(rpc::Lease&& reply) override;
  void finish(Outcome&& outcome) override;

  ScanOperation* parent = nullptr;
};

class ScanOperation final : public PartedOperation {
 public:
  /// INVALID_ARGUMENT: a limit is passed, or an option is set that only GET takes.
  [[nodiscard]] absl::Status accept(const ScanCall& call, ScanCallback&& callback);
  void finish(Outcome&& outcome) override;

  // For the pages.
  [[nodiscard]] ScanRequest request_of(const ScanPage& page, const Route& route) const;
  /// INTERNAL: the page is malformed.
  [[nodiscard]] absl::Status add_page(ScanPage& page, const ScanReply& reply, rpc::Lease&& lease);
  void page_failed(ScanPage& page, Outcome&& outcome);

 protected:
  void divide(const KeyPlacement& placement) override;
  bool start_part() override;

 private:
  void start_page(uint32_t of_shard);
  void note_count_token(uint32_t shard, const Token& token);
  [[nodiscard]] absl::Status add_count(ScanPage& page, const ScanReply& reply);

  std::string start_;
  std::string end_;
  uint32_t limit_ = 0;
  bool wants_marks_ = false;
  bool keys_only_ = false;
  bool count_only_ = false;
  // If it only counts:
  std::vector<std::string> tokens_;  // of each shard: where its next page starts
  std::vector<uint32_t> uncounted_;  // shards of which a page is to be asked for
  ScanMerge merge_;
  ScanResult result_;
  ScanCallback done_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_SCAN_OPERATION_H_
