// MULTI_GET: keys are grouped by shard. Each group is a part; parts are in flight at the same time. A key whose value
// did not fit into its group's reply is read again by a GET of its own; with ReadOptions::memory_only the caller is
// told instead.
#ifndef SKUA_KVSTORE_CLIENT_MULTI_GET_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_MULTI_GET_OPERATION_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/get_operation.h"
#include "kvstore/client/parted_operation.h"

namespace skua::kv {

class MultiGetOperation final : public PartedOperation {
 public:
  /// INVALID_ARGUMENT: a limit is passed, or an option is set that only GET takes.
  [[nodiscard]] absl::Status accept(const MultiGetCall& call, MultiGetCallback&& callback);
  void finish(Outcome&& outcome) override;

  // For the parts.
  [[nodiscard]] absl::StatusOr<ByteSpan> encode_part(const OperationPart& part, const Route& route) override;
  [[nodiscard]] absl::Status take_reply(OperationPart& part, rpc::Lease&& lease) override;
  void fail_part(OperationPart& part, Outcome&& outcome) override;
  /// The result of a key that was read alone, or its failure.
  void add_lone_value(GetOperation& part, GetResult&& result);

 protected:
  void divide(const KeyPlacement& placement) override;
  bool start_part() override;
  void reset() override;

 private:
  struct Group {
    uint32_t shard = 0;
    uint32_t first = 0;
    uint32_t count = 0;
  };

  std::string key_bytes_;               // all keys, one after the other
  std::vector<std::string_view> keys_;  // views into it, grouped by shard
  std::vector<uint32_t> places_;        // for each of keys_: its index in the caller's order
  std::vector<Group> groups_;           // each is a part, whose number is its index
  uint32_t next_group_ = 0;
  MultiGetWishes wishes_;
  std::vector<uint32_t> alone_;  // indices of keys whose values did not fit into a reply
  MultiGetResult result_;
  MultiGetCallback done_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_MULTI_GET_OPERATION_H_
