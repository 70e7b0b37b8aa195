#include "control/server/metadata_place.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "control/client/what_answers.h"
#include "control/security/certificate_files.h"
#include "control/server/control_exit.h"
#include "control/store/embedded_store.h"
#include "control/store/etcd_election.h"
#include "control/store/etcd_store.h"
#include "control/store/etcd_tls.h"

namespace skua::control {
namespace {

absl::StatusOr<EtcdAddress> etcd_address(const ControlOptions& options) {
  auto address = parse_etcd_address(options.metadata);
  if (!address.ok()) return address;
  for (const std::string& endpoint : address->endpoints) {
    if (auto status = app::check_address(endpoint); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata address \"", options.metadata, "\": ", endpoint, " ", status.message()));
    }
  }
  return address;
}

/// What is said about TLS with etcd goes together.
absl::Status check_tls(const ControlOptions& options) {
  const bool tls =
      options.metadata != kEmbeddedMetadata && absl::StartsWith(options.metadata, std::string(kEtcdTlsScheme));
  if (tls) {
    absl::Status kept = check_key_is_kept(options.etcd_tls.key);
    return kept.ok() ? check_etcd_tls(options.etcd_tls) : kept;
  }
  if (options.etcd_tls.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--etcd-ca, --etcd-cert and --etcd-key are for an etcd with TLS, and --metadata is ",
                   options.metadata, ": write etcds:// there, or leave them away"));
}

/// The etcd could not be used: what stands at its addresses instead.
absl::Status explain_etcd_failure(const absl::Status& status, const EtcdAddress& address, const EtcdTlsFiles& tls) {
  for (const std::string& endpoint : address.endpoints) {
    const Answerer answerer = what_answers(endpoint);
    const std::string there = absl::StrCat("--metadata names ", endpoint, ", and there is ", describe(answerer));
    switch (answerer) {
      case Answerer::kNobody: continue;
      case Answerer::kEtcd:
        if (!address.tls) continue;
        return absl::FailedPreconditionError(
            absl::StrCat(there, " without TLS: write etcd:// in --metadata, or give etcd a certificate"));
      case Answerer::kSilent:
        return {status.code(), absl::StrCat(there,
                                            ": an etcd that hangs, or another program. Check --metadata, or start the "
                                            "etcd there again")};
      case Answerer::kTls:
        if (address.tls) {
          // An etcd that was reached, and has no leader for example, is only waited for in vain.
          if (!absl::StrContains(status.message(), "cannot be reached")) return status;
          return absl::FailedPreconditionError(
              explain_etcd_tls(std::string(status.message()), !tls.certificate.empty()));
        }
        return absl::FailedPreconditionError(
            absl::StrCat(there, ". If it is an etcd, write etcds:// in --metadata, and give --etcd-ca FILE"));
      default:
        return absl::FailedPreconditionError(absl::StrCat(
            there, ", no etcd. Give the client addresses of an etcd: --metadata etcd://HOST:2379,HOST:2379/PREFIX"));
    }
  }
  return status;
}

}  // namespace

absl::Status check_metadata_options(const ControlOptions& options) {
  if (options.metadata != kEmbeddedMetadata) {
    if (absl::Status address = etcd_address(options).status(); !address.ok()) return address;
  }
  return check_tls(options);
}

Metadata open_metadata(const ControlOptions& options) {
  if (options.metadata == kEmbeddedMetadata) {
    return {value_or_give_up(open_embedded_store({.directory = options.data_dir + "/metadata"})), nullptr};
  }
  const auto address = value_or_give_up(etcd_address(options));
  auto store = EtcdStore::open({.address = address, .tls = options.etcd_tls});
  if (!store.ok()) give_up(explain_etcd_failure(store.status(), address, options.etcd_tls));
  auto election = make_etcd_election(**store);
  return {*std::move(store), std::move(election)};
}

}  // namespace skua::control
