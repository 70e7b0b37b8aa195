// Registrations that wait for what is found at the addresses they name.
//
//     ask(claim, addresses) ──> probe ──> (any thread) post ──> (control thread) answered() ──> claim with answers
//
// A blackhole answers late, so the number of claims that wait is bounded: in all, by source, and for one node by two.
// One of the two is for claims at the address that the node has: whoever floods with another address does not keep the
// node itself out.
#ifndef SKUA_CONTROL_SERVER_CLAIM_DESK_H_
#define SKUA_CONTROL_SERVER_CLAIM_DESK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "control/core/cluster_core.h"
#include "control/server/node_probe.h"

namespace skua::control {

/// A registration and who waits for its decision.
struct Claim {
  RegisterNode event;
  /// Who sent it, as far as the network knows; empty: not counted.
  std::string source;
  std::function<void(const Decision& decision, const ClusterCore& core)> done;
};

/// Thread: the control thread, but for `post`.
class ClaimDesk {
 public:
  using PostFn = std::function<void(uint64_t claim, ClaimAnswer answer)>;

  /// `post` runs on any thread, also while the desk is destroyed.
  ClaimDesk(std::unique_ptr<NodeProbe> probe, PostFn post) : probe_(std::move(probe)), post_(std::move(post)) {}
  ClaimDesk(const ClaimDesk&) = delete;
  ClaimDesk& operator=(const ClaimDesk&) = delete;

  /// Takes the claim and asks. RESOURCE_EXHAUSTED, UNAVAILABLE: the claim stays as it is.
  absl::Status ask(Claim& claim, const std::vector<std::string>& addresses);

  /// The claim once it has all its answers. Nothing for one that is not here any more.
  std::optional<Claim> answered(uint64_t claim, ClaimAnswer answer);

  /// All that wait. Their answers count no more.
  std::vector<Claim> take_all();

 private:
  struct Waiting {
    Claim claim;
    size_t missing = 0;
  };
  // A node and its claimed address: who claims to be the node elsewhere must not keep it waiting.
  using Place = std::pair<std::string, std::string>;

  [[nodiscard]] absl::Status admit(const Claim& claim) const;
  Claim take(std::map<uint64_t, Waiting>::iterator waiting);

  std::map<uint64_t, Waiting> waiting_;
  std::map<Place, uint64_t> places_;
  std::map<std::string, size_t> by_source_;
  uint64_t next_ = 1;
  /// Last: its end answers what is open.
  const std::unique_ptr<NodeProbe> probe_;
  const PostFn post_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CLAIM_DESK_H_
