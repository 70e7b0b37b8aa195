#include "control/core/identity_rules.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/core/limits.h"
#include "control/core/uuid.h"

namespace skua::control {
namespace {

std::string range_text(VersionRange range) {
  return absl::StrCat(range.min, " to ", range.max);
}

/// True for an address that others can connect to: not a wildcard, not port 0.
bool is_dialable(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return false;
  const std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  const bool digits = port.find_first_not_of("0123456789") == std::string::npos;
  return digits && port != "0" && port.size() <= 5 && host != "0.0.0.0" && host != "[::]" && host != "*";
}

constexpr const char* kCopyAdvice =
    "If this data directory is a copy, stop this process and start it with an empty data "
    "directory: it will get an "
    "identity of its own";

}  // namespace

std::string describe_node(const NodeInfo& node) {
  return absl::StrCat("node ", node.uuid, " (", node.grpc_address, " on ",
                      node.host.empty() ? "unknown host" : node.host, ", incarnation ", node.incarnation, ")");
}

absl::Status check_cluster(const std::string& who, const std::string& claimed_id, const ClusterState& state) {
  if (claimed_id.empty() || claimed_id == state.cluster_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(who, " belongs to cluster ", claimed_id, ", but this is the control plane of cluster ",
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
  if (!is_uuid(node.uuid) || !is_uuid(node.instance)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node identity \"", node.uuid, "\" / instance \"", node.instance,
                     "\" is not a lower-case UUID. The node's identity file is damaged or from "
                     "another program"));
  }
  if (node.incarnation == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node.uuid, " registers with incarnation 0; the first start has 1"));
  }
  if (node.grpc_address.size() > kAddressMax || !is_dialable(node.grpc_address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node.uuid, " advertises \"", node.grpc_address,
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
  if (newcomer.storage_incarnation < registered.storage_incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat(describe_node(newcomer), " has an older storage (", newcomer.storage_incarnation,
                     ") than the one that is registered (", registered.storage_incarnation,
                     "). Its data directory is an old copy. Bring back the newest data directory. ", kCopyAdvice));
  }
  const bool same_instance = newcomer.instance == registered.instance;
  if (newcomer.incarnation == registered.incarnation && same_instance) return absl::OkStatus();
  if (newcomer.incarnation < registered.incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat(describe_node(newcomer), " is older than the one that is registered, ", describe_node(registered),
                     ". Its data directory is an old copy. Bring back the newest data "
                     "directory. ",
                     kCopyAdvice));
  }
  if (newcomer.incarnation == registered.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(describe_node(newcomer), " has the identity of another process, ",
                                                      describe_node(registered), ". ", kCopyAdvice,
                                                      ". If that process is gone for good, start this one again"));
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

}  // namespace skua::control
