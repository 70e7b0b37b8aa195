// skuactl doctor: prints the findings of examine().
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "control/client/admin_client.h"
#include "control/security/credentials.h"
#include "kvstore/ctl/cluster_view.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/doctor.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/clock.h"
#include "rpc/base/printable.h"
#include "rpc/crypto/aead.h"

namespace skua::kv::ctl {
namespace {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarning: return "warn";
    case Verdict::kFailure: return "FAIL";
  }
  return "?";
}

int report(const std::vector<Finding>& findings, bool json) {
  if (json) {
    print_json(json_list(findings, [](const Finding& finding) -> nlohmann::json {
      return {{"area", finding.area},     {"check", finding.name}, {"verdict", verdict_name(finding.verdict)},
              {"detail", finding.detail}, {"why", finding.why},    {"remedy", finding.remedy}};
    }));
  } else {
    for (const Finding& finding : findings) {
      absl::PrintF("%-4s  %-8s %-15s %s\n", verdict_name(finding.verdict), finding.area, finding.name, finding.detail);
      if (finding.verdict == Verdict::kOk) continue;
      absl::PrintF("%31s%s\n", "", finding.why);
      if (!finding.remedy.empty()) absl::PrintF("%31s-> %s\n", "", finding.remedy);
    }
  }
  const bool failed = std::ranges::find(findings, Verdict::kFailure, &Finding::verdict) != findings.end();
  return failed ? app::kExitFailure : app::kExitOk;
}

/// Enters the programs into the plan, or why they are not known. Nothing if no control plane answers at once: the
/// doctor is for this machine.
void ask_cluster(const Globals& globals, SecurityPlan& plan) {
  constexpr DurationNs kPatienceNs = 300 * kMillisecond;
  const absl::StatusOr<control::CredentialsPtr> credentials = control::Credentials::load(globals.credential_files);
  plan.unasked = credentials.status();
  if (!credentials.ok()) return;
  control::AdminClient admin(globals.control_address, kPatienceNs, *credentials);
  const absl::StatusOr<control::ClusterStatus> status = admin.status();
  if (!status.ok()) {
    plan.refusal = status.status();
    return;
  }
  plan.programs = {{"the control plane", status->security}};
  for (const control::ClusterStatus::Node& node : status->nodes) {
    plan.programs.push_back(
        {absl::StrCat("node ", short_uuid(*status, node.info.uuid), " (", printable(node.info.grpc_address), ")"),
         node.security});
  }
}

int doctor(const Globals& globals, const DoctorOptions& given) {
  DoctorOptions options = given;
  options.security = {.files = globals.credential_files,
                      .now_s = std::time(nullptr),
                      .has_fast_cipher = rpc::has_aead_library(rpc::AeadLibrary::kIpsecMb)};
  ask_cluster(globals, options.security);
  options.dpdk.wanted = globals.transport == TransportKind::kDpdk;
  options.dpdk.devices = globals.dpdk.devices;
  options.dpdk.huge_pages = globals.dpdk.huge_pages;
  options.verbs.wanted = globals.transport == TransportKind::kVerbs;
  options.verbs.device = globals.verbs.device;
  return report(examine(options), globals.json);
}

}  // namespace

void add_doctor_command(app::Program& program, const Globals& globals) {
  const auto [command, options] =
      add_command(program, "doctor",
                  "Says what would stop this machine from running each transport, and what mends it.", globals, doctor);
  command.description(
      "With --transport dpdk or verbs, what that transport cannot do without is a failure instead of a warning, and "
      "the devices that --dpdk-devices or --verbs-device name are looked at.");
  command.add_string("data-dir", &options.data_dir, "Where a node would keep its data.")
      .value_name("DIR")
      .check(not_empty("must be a directory"));
  command.add_list("interface", &options.dpdk.interfaces, "Interfaces whose link and MTU to look at.")
      .value_name("NAME,...");
  command.example("skuactl doctor --data-dir /var/lib/skua", "");
  command.example("skuactl doctor --interface eth1 --output json", "also the link and the MTU of eth1");
  command.example("skuactl doctor --cert node.pem --key node.key --ca ca.pem", "will others believe this program?");
  command.example("skuactl doctor --transport dpdk --dpdk-devices 0000:3b:00.0", "can DPDK drive this card?");
  command.example("skuactl doctor --transport verbs --verbs-device mlx5_0", "can this RDMA adapter be used?");
}

}  // namespace skua::kv::ctl
