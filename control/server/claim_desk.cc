#include "control/server/claim_desk.h"

#include "absl/strings/str_cat.h"
#include "control/core/identity_rules.h"
#include "control/server/controller_limits.h"

namespace skua::control {

absl::Status ClaimDesk::ask(Claim& claim, const std::vector<std::string>& addresses) {
  if (auto status = admit(claim); !status.ok()) return status;
  const uint64_t id = next_++;
  places_[{claim.event.node.uuid, claim.event.node.grpc_address}] = id;
  if (!claim.source.empty()) ++by_source_[claim.source];
  const NodeInfo node = claim.event.node;
  waiting_[id] = {std::move(claim), addresses.size()};
  for (const std::string& address : addresses) {
    probe_->ask(address, node, [post = post_, id](ClaimAnswer answer) { post(id, std::move(answer)); });
  }
  return absl::OkStatus();
}

absl::Status ClaimDesk::admit(const Claim& claim) const {
  const std::string who = describe_node(claim.event.node);
  if (places_.contains({claim.event.node.uuid, claim.event.node.grpc_address})) {
    return absl::UnavailableError(absl::StrCat(
        who, " is not registered yet: an earlier claim to be this node is being looked into. Try again in a second"));
  }
  const auto from_there = by_source_.find(claim.source);
  if (waiting_.size() >= kClaimsMax || (from_there != by_source_.end() && from_there->second >= kClaimsPerSourceMax)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(who, " is not registered yet: ", waiting_.size(), " registrations are being looked into; at most ",
                     kClaimsMax, ", and ", kClaimsPerSourceMax, " from one host. Try again in a few seconds"));
  }
  return absl::OkStatus();
}

std::optional<Claim> ClaimDesk::answered(uint64_t claim, ClaimAnswer answer) {
  const auto waiting = waiting_.find(claim);
  if (waiting == waiting_.end()) return std::nullopt;
  waiting->second.claim.event.answers.push_back(std::move(answer));
  if (--waiting->second.missing > 0) return std::nullopt;
  return take(waiting);
}

std::vector<Claim> ClaimDesk::take_all() {
  std::vector<Claim> all;
  while (!waiting_.empty()) all.push_back(take(waiting_.begin()));
  return all;
}

Claim ClaimDesk::take(std::map<uint64_t, Waiting>::iterator waiting) {
  Claim claim = std::move(waiting->second.claim);
  waiting_.erase(waiting);
  places_.erase({claim.event.node.uuid, claim.event.node.grpc_address});
  const auto from_there = by_source_.find(claim.source);
  if (from_there != by_source_.end() && --from_there->second == 0) by_source_.erase(from_there);
  return claim;
}

}  // namespace skua::control
