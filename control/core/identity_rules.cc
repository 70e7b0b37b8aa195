#include "control/core/identity_rules.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/core/cluster_limits.h"
#include "control/core/uuid.h"

namespace skua::control {
namespace {

/// A peer's text, escaped and cut so that it fits into a line of a message.
std::string shown(const std::string& text) {
  return absl::Utf8SafeCHexEscape(text.substr(0, kAddressMax));
}

std::string range_text(VersionRange range) {
  return absl::StrCat(range.min, " to ", range.max);
}

constexpr const char* kHostNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

/// True for an address that others can connect to: a host name or an IP address (IPv6 in brackets) that is no wildcard,
/// and a port that is not 0. Other texts are refused, because gRPC may understand them as something else: a local
/// socket, another name server, a list.
bool is_dialable(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return false;
  const std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  const bool digits = port.find_first_not_of("0123456789") == std::string::npos;
  const bool in_brackets = host.front() == '[' && host.back() == ']';
  const std::string name = in_brackets ? host.substr(1, host.size() - 2) : host;
  const bool is_plain =
      name.find_first_not_of(in_brackets ? "0123456789abcdefABCDEF:.%" : kHostNameCharacters) == std::string::npos;
  return digits && is_plain && port != "0" && port.size() <= 5 && host != "0.0.0.0" && name != "::" && !name.empty();
}

constexpr const char* kCopyAdvice =
    "If this data directory is a copy, stop this process and start it with an empty data "
    "directory: it will get an "
    "identity of its own";

/// A node counts its incarnations up by one, so a claim that is far beyond the known ones is refused.
absl::Status check_steps(const NodeInfo& newcomer, const NodeInfo& registered) {
  const auto check = [&](const char* what, uint64_t claimed, uint64_t known) -> absl::Status {
    if (claimed <= known || claimed - known <= kIncarnationStepMax) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(describe_node(newcomer), " claims ", what, " ", claimed, ", but the last one known is ", known,
                     ", and a node counts one up at a time; at most ", kIncarnationStepMax,
                     " more are taken. Its data directory is damaged or another node's: bring back the right one. If "
                     "the number is right, "
                     "take the node out (skuactl node remove ",
                     newcomer.uuid, ") and start it again"));
  };
  if (auto status = check("incarnation", newcomer.incarnation, registered.incarnation); !status.ok()) return status;
  return check("storage incarnation", newcomer.storage_incarnation, registered.storage_incarnation);
}

/// Checks that the claim has the secret, which only the node's data directory has.
absl::Status check_secret(const NodeInfo& newcomer, const NodeInfo& registered) {
  if (registered.secret.empty() || newcomer.secret == registered.secret) return absl::OkStatus();
  if (newcomer.secret.empty() && newcomer.grpc_address == registered.grpc_address) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      describe_node(newcomer),
      newcomer.secret.empty() ? " does not say the secret" : " has another secret than the one",
      " that this node is registered with. The secret is in identity.toml of the node's data directory: bring back the "
      "right one. If it is lost, take the node out (skuactl node remove ",
      newcomer.uuid, ") and start it again",
      newcomer.secret.empty()
          ? ". An older release does not know of secrets: start the node at the address that it had, "
          : "",
      newcomer.secret.empty() ? registered.grpc_address : ""));
}

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

/// The process that answered, for a message.
std::string describe_answer(const ClaimAnswer& answer) {
  if (!is_uuid(answer.uuid)) return "somebody that is no storage node";
  return absl::StrCat("node ", answer.uuid, ", incarnation ", answer.incarnation);
}

const ClaimAnswer* find_answer(const std::vector<ClaimAnswer>& answers, const std::string& address) {
  const auto found = std::find_if(answers.begin(), answers.end(),
                                  [&](const ClaimAnswer& answer) { return answer.address == address; });
  return found == answers.end() ? nullptr : &*found;
}

}  // namespace

std::string describe_node(const NodeInfo& node) {
  return absl::StrCat("node ", shown(node.uuid), " (", shown(node.grpc_address), " on ",
                      node.host.empty() ? "unknown host" : shown(node.host), ", incarnation ", node.incarnation, ")");
}

absl::Status check_cluster(const std::string& who, const std::string& claimed_id, const ClusterState& state) {
  if (claimed_id.empty() || claimed_id == state.cluster_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(who, " belongs to cluster ", shown(claimed_id), ", but this is the control plane of cluster ",
                   state.cluster_id, " (", state.cluster_name,
                   "). Use the address of the right control plane, or an empty data directory to join this "
                   "one"));
}

absl::Status check_versions(const std::string& who, VersionRange theirs) {
  if (negotiate(kProtocolVersions, theirs)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(who, " speaks control protocol versions ", range_text(theirs),
                                                    ", this control plane speaks ", range_text(kProtocolVersions),
                                                    ". Upgrade whichever of the two is older"));
}

absl::Status check_node_info(const NodeInfo& node) {
  if (!is_uuid(node.uuid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node identity \"", shown(node.uuid),
                     "\" is not a lower-case UUID. The node's identity file is damaged or "
                     "from another program"));
  }
  if (node.uuid.starts_with("00000000-0000-0000")) {
    return absl::InvalidArgumentError(absl::StrCat("node identity ", node.uuid,
                                                   " begins with zeros, which stand for no node. Give the node an "
                                                   "empty data directory, in which it draws another one"));
  }
  if (!is_uuid(node.instance)) {
    // The instance is never shown: a process that knows it can send messages in the node's name.
    return absl::InvalidArgumentError(absl::StrCat(
        "node ", node.uuid, " registers with an instance that is not a lower-case UUID. It is another program's"));
  }
  if (!node.secret.empty() && !is_uuid(node.secret)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "node ", node.uuid, " registers with a secret that is not a lower-case UUID. It is another program's"));
  }
  if (node.incarnation == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node.uuid, " registers with incarnation 0; the first start has 1"));
  }
  if (node.grpc_address.size() > kAddressMax || !is_dialable(node.grpc_address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node.uuid, " advertises \"", shown(node.grpc_address),
                     "\", which others cannot connect to. Advertise a host name or address with a port, such as "
                     "10.0.0.7:7500"));
  }
  if (node.host.size() > kAddressMax) {
    return absl::InvalidArgumentError(absl::StrCat("node ", node.uuid, " has a host name of ", node.host.size(),
                                                   " bytes; the limit is ", kAddressMax));
  }
  if (node.zone.size() > kZoneMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node.uuid, " has a zone name of ", node.zone.size(), " bytes; the limit is ", kZoneMax));
  }
  if (node.worker_count == 0 || node.worker_count > kWorkersPerNodeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node.uuid, " has ", node.worker_count, " workers; choose 1 to ", kWorkersPerNodeMax));
  }
  return absl::OkStatus();
}

absl::Status check_identity(const NodeInfo& newcomer, const NodeInfo& registered, const NodeStatus& status, TimeNs now,
                            DurationNs suspect_after_ns) {
  if (auto status_of_secret = check_secret(newcomer, registered); !status_of_secret.ok()) return status_of_secret;
  if (newcomer.storage_incarnation < registered.storage_incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat(describe_node(newcomer), " has an older storage (", newcomer.storage_incarnation,
                     ") than the one that is registered (", registered.storage_incarnation,
                     "). Its data directory is an old copy. Bring back the newest data directory. ", kCopyAdvice));
  }
  const bool same_instance = newcomer.instance == registered.instance;
  if (auto status_of_steps = check_steps(newcomer, registered); !status_of_steps.ok()) return status_of_steps;
  if (newcomer.incarnation == registered.incarnation && same_instance) return absl::OkStatus();
  if (newcomer.incarnation < registered.incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat(describe_node(newcomer), " is older than the one that is registered, ", describe_node(registered),
                     ". Its data directory is an old copy. Bring back the newest data "
                     "directory. ",
                     kCopyAdvice));
  }
  if (newcomer.incarnation == registered.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        describe_node(newcomer), " has the identity of another process, ", describe_node(registered), ". ", kCopyAdvice,
        ". Only if there never was a copy and that process is gone for good, start this "
        "one again"));
  }
  const bool gone = status.liveness == Liveness::kSuspected || status.liveness == Liveness::kStopped;
  if (gone || newcomer.grpc_address == registered.grpc_address) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrFormat(
      "%s has the identity of a process that is alive: %s, heard %.1f s ago. %s. "
      "If that process has just "
      "ended, try again in %.1f s",
      describe_node(newcomer), describe_node(registered), static_cast<double>(now - status.heard_ns) / 1e9, kCopyAdvice,
      static_cast<double>(status.heard_ns + suspect_after_ns - now) / 1e9));
}

absl::Status check_room(const NodeInfo& newcomer, const ClusterState& state) {
  const std::string host = host_of(newcomer.grpc_address);
  const auto at_host = static_cast<size_t>(std::count_if(state.nodes.begin(), state.nodes.end(), [&](const auto& node) {
    return host_of(node.second.grpc_address) == host;
  }));
  const bool is_full = state.nodes.size() >= kNodesMax;
  if (!is_full && at_host < kNodesPerHostMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(describe_node(newcomer), " cannot join: the cluster has ", is_full ? kNodesMax : kNodesPerHostMax,
                   is_full ? " nodes" : " nodes at its host",
                   ", which is the limit. Remove nodes that are gone (skuactl node remove)"));
}

absl::Status check_unlike_others(const NodeInfo& newcomer, const ClusterState& state) {
  // The first 18 characters, "xxxxxxxx-xxxx-xxxx", are eight bytes.
  const std::string prefix = newcomer.uuid.substr(0, 18);
  for (auto node = state.nodes.lower_bound(prefix); node != state.nodes.end(); ++node) {
    if (!absl::StartsWith(node->first, prefix)) break;
    if (node->first == newcomer.uuid) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        describe_node(newcomer), " begins with the same eight bytes as ", describe_node(node->second),
        ", and nodes tell each other apart by them. A random uuid does not do so: start this process with an "
        "empty data directory, which gets another one"));
  }
  return absl::OkStatus();
}

std::vector<std::string> addresses_to_ask(const NodeInfo& newcomer, const NodeInfo* registered,
                                          const NodeStatus& status) {
  if (registered == nullptr) return {newcomer.grpc_address};
  const bool same_process =
      newcomer.incarnation == registered->incarnation && newcomer.instance == registered->instance;
  // A process never changes its address or its storage incarnation. So only an unchanged claim is the registered
  // process's.
  if (same_process && newcomer.grpc_address == registered->grpc_address &&
      newcomer.storage_incarnation == registered->storage_incarnation) {
    return {};
  }
  // A process that has said that it stops may still answer for a moment, so it is not asked.
  const bool may_stand = status.liveness != Liveness::kStopped;
  if (!may_stand || newcomer.grpc_address == registered->grpc_address) return {newcomer.grpc_address};
  return {newcomer.grpc_address, registered->grpc_address};
}

absl::Status check_proof(const NodeInfo& newcomer, const NodeInfo* registered,
                         const std::vector<ClaimAnswer>& answers) {
  if (registered != nullptr && registered->grpc_address != newcomer.grpc_address) {
    const ClaimAnswer* there = find_answer(answers, registered->grpc_address);
    if (there != nullptr && there->answered && there->uuid == newcomer.uuid &&
        there->incarnation != newcomer.incarnation) {
      return absl::AlreadyExistsError(
          absl::StrCat(describe_node(newcomer), " has the identity of a process that still answers at ", there->address,
                       " (", describe_answer(*there),
                       "), though the control plane does not hear it. Stop that process first. ", kCopyAdvice));
    }
  }
  const ClaimAnswer* here = find_answer(answers, newcomer.grpc_address);
  if (here == nullptr || !here->answered) {
    return absl::UnavailableError(
        absl::StrCat(describe_node(newcomer), " is not registered yet: the control plane asked at ",
                     newcomer.grpc_address, " and nobody answered (", here == nullptr ? "not asked" : here->trouble,
                     "). If that is so for long, make the address one that the control plane can reach, too (skuad "
                     "--advertise-host)"));
  }
  if (here->uuid == newcomer.uuid && here->incarnation == newcomer.incarnation && !here->other_instance) {
    return absl::OkStatus();
  }
  const bool same_number = here->uuid == newcomer.uuid && here->incarnation == newcomer.incarnation;
  return absl::AlreadyExistsError(absl::StrCat(
      describe_node(newcomer), " is refused: at ", newcomer.grpc_address, " answers ",
      same_number ? "another process, " : "", describe_answer(*here),
      ". If that process is on its way out, try again. If it is the right one, stop this one; otherwise give "
      "this one an address of its own"));
}

Decision judge_claim(const RegisterNode& event, const NodeInfo* registered, const NodeStatus& status) {
  Decision decision;
  const std::vector<std::string> needed = addresses_to_ask(event.node, registered, status);
  if (needed.empty()) return decision;
  for (const std::string& address : needed) {
    if (find_answer(event.answers, address) == nullptr) decision.ask.push_back(address);
  }
  decision.status = decision.ask.empty()
                        ? check_proof(event.node, registered, event.answers)
                        : absl::UnavailableError(absl::StrCat(
                              describe_node(event.node), " is not registered yet: the control plane asks at ",
                              absl::StrJoin(decision.ask, " and "), " first. Try again"));
  return decision;
}

absl::Status check_process(const NodeInfo* registered, const std::string& uuid, uint64_t incarnation,
                           const std::string& instance, const std::string& cluster_id) {
  if (registered == nullptr || registered->incarnation < incarnation) {
    return absl::NotFoundError(absl::StrCat("node ", uuid, " incarnation ", incarnation,
                                            " is not registered with cluster ", cluster_id, ". Register again"));
  }
  if (registered->incarnation != incarnation || registered->instance != instance) {
    return absl::FailedPreconditionError(absl::StrCat("node ", uuid, " incarnation ", incarnation, " was replaced by ",
                                                      describe_node(*registered),
                                                      ". Stop this process: it must not serve any more"));
  }
  return absl::OkStatus();
}

}  // namespace skua::control
