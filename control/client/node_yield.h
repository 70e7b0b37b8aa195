// NodeYield: how far a node that stops soon is with having others lead its shards.
//
//   begin() -- heartbeats --> on_reply() ... on_reply(): nothing is left, and who leads now knows it --> done
//                         --> on_failure() for each control process --> done, with an error
#ifndef SKUA_CONTROL_CLIENT_NODE_YIELD_H_
#define SKUA_CONTROL_CLIENT_NODE_YIELD_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// Has no lock. The owner of NodeAgent's state uses it.
class NodeYield {
 public:
  void begin() { has_begun_ = true; }
  /// True from begin() on: heartbeats say that the node yields.
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  [[nodiscard]] bool is_under_way() const { return has_begun_ && !result_; }

  /// The reply to a heartbeat that said that the node yields. `left`: shards that it leads and another node could;
  /// `lags`: the nodes that lead the others now do not all know of it.
  void on_reply(size_t left, bool lags) {
    shards_ = std::max(shards_, left);
    if (result_) return;
    if (left > 0) {
      said_ = absl::StrCat("the node still leads ", left, " shards that another one could lead");
    } else if (shards_ > 0 && lags) {
      said_ = "the nodes that shall lead its shards do not all do so yet";
    } else {
      result_ = shards_;
    }
  }

  /// A control process could not answer. After as many as there are, nobody can hand over.
  void on_failure(const absl::Status& why, size_t processes) {
    if (is_under_way() && ++failures_ >= processes) result_ = absl::UnavailableError(why.message());
  }

  /// The number of shards that others lead now; nullopt: not done yet.
  [[nodiscard]] const std::optional<absl::StatusOr<size_t>>& result() const { return result_; }

  [[nodiscard]] absl::Status out_of_time(DurationNs limit_ns) const {
    return absl::DeadlineExceededError(absl::StrCat(said_.empty() ? "the control plane has not answered" : said_,
                                                    " after ", limit_ns / kMillisecond,
                                                    " ms: skuactl status tells what it waits for"));
  }

 private:
  bool has_begun_ = false;
  size_t shards_ = 0;  // the most that were left
  size_t failures_ = 0;
  std::string said_;  // what it waits for
  std::optional<absl::StatusOr<size_t>> result_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_CLIENT_NODE_YIELD_H_
