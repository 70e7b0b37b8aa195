#include "kvstore/ctl/doctor_security.h"

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "app/file.h"
#include "control/security/certificate_files.h"

namespace skua::kv::ctl {
namespace {

using control::CertificateAndKey;
using control::CertificateInfo;
using control::WallSeconds;

constexpr size_t kFileBytesMax = 1 << 20;
constexpr WallSeconds kHourS = 3'600;
constexpr WallSeconds kDayS = 24 * kHourS;
constexpr mode_t kOfOthers = S_IRWXG | S_IRWXO;

std::string time_left(const CertificateInfo& info, WallSeconds now_s) {
  const WallSeconds left = info.valid.until - now_s;
  const std::string duration =
      left < 2 * kDayS ? absl::StrCat(left / kHourS, " hours") : absl::StrCat(left / kDayS, " days");
  return absl::StrCat("valid until ", control::wall_time_text(info.valid.until), ", ", duration);
}

void add_certificate(Findings& out, Verdict verdict, std::string detail, std::string remedy) {
  out.add("certificate", verdict, std::move(detail), std::move(remedy),
          "with a certificate that others refuse, a program reaches nobody");
}

void examine_key(const std::string& path, Findings& out) {
  constexpr char kWhy[] = "whoever reads the key can be this program";
  if (const absl::Status kept = control::check_key_is_kept(path); !kept.ok()) {
    return out.add("private key", Verdict::kFailure, std::string(kept.message()), absl::StrCat("chmod 600 ", path),
                   "programs do not start with such a key: whoever reads it can be this program");
  }
  struct stat file {};
  const bool is_open = stat(path.c_str(), &file) == 0 && (file.st_mode & kOfOthers) != 0;
  out.add("private key", is_open ? Verdict::kWarning : Verdict::kOk,
          is_open ? absl::StrFormat("%s may be used by others (mode %04o)", path, file.st_mode & 07777)
                  : absl::StrCat(path, " is its owner's alone"),
          absl::StrCat("chmod 600 ", path), kWhy);
}

void examine_authority(const std::string& path, std::string_view text, WallSeconds now_s, Findings& out) {
  constexpr char kWhy[] = "without its authority no certificate is believed";
  const absl::StatusOr<CertificateInfo> info = control::inspect_certificate(text);
  if (!info.ok()) {
    return out.add("authority", Verdict::kFailure, absl::StrCat(path, ": ", info.status().message()),
                   "give --ca the ca.pem that skuactl cert init made", kWhy);
  }
  const Verdict bad = info->valid.until <= now_s ? Verdict::kFailure : Verdict::kWarning;
  out.add("authority", control::expiry_trouble(*info, now_s).empty() ? Verdict::kOk : bad,
          absl::StrCat("of cluster ", info->cluster_id, ", ", time_left(*info, now_s)),
          "have a new authority made, and let all programs believe both for a while (docs/security.md)", kWhy);
}

/// The certificate, its key and the authorities together.
void examine_certificate(const CertificateAndKey& own, std::string_view authorities, WallSeconds now_s, Findings& out) {
  const absl::StatusOr<CertificateInfo> info = control::inspect_certificate(own.certificate);
  if (!info.ok()) {
    return add_certificate(out, Verdict::kFailure, std::string(info.status().message()),
                           "skuactl cert issue makes one");
  }
  if (const absl::Status status = control::check_credentials(own, authorities, now_s); !status.ok()) {
    return add_certificate(
        out, Verdict::kFailure, std::string(status.message()),
        "give the files that belong together, or have the certificate issued anew: skuactl cert issue");
  }
  if (const absl::Status status = control::check_renewable(*info); !status.ok()) {
    return add_certificate(
        out, Verdict::kWarning, std::string(status.message()),
        "have it made anew with names that the authority signs: letters, digits, - . _ and a leading *.");
  }
  const std::string name = info->identity.has_value() ? info->identity->principal() : "an authority";
  add_certificate(out, control::expiry_trouble(*info, now_s).empty() ? Verdict::kOk : Verdict::kWarning,
                  absl::StrCat(name, ", ", time_left(*info, now_s)),
                  "have a new one issued, into the same files; no restart is needed");
}

void examine_files(const SecurityPlan& plan, Findings& out) {
  CertificateAndKey own;
  std::string authorities;
  const std::pair<const std::string*, std::string*> files[] = {{&plan.files.certificate, &own.certificate},
                                                               {&plan.files.key, &own.key},
                                                               {&plan.files.authorities, &authorities}};
  for (const auto& [path, text] : files) {
    if (path->empty()) {
      return add_certificate(out, Verdict::kFailure, "--cert, --key and --ca belong together, and one is missing",
                             "give all three");
    }
    absl::StatusOr<std::string> read = app::read_file(*path, kFileBytesMax);
    if (!read.ok()) {
      return add_certificate(out, Verdict::kFailure, std::string(read.status().message()),
                             absl::StrCat("let this user read ", *path, ", or give another file"));
    }
    *text = *std::move(read);
  }
  examine_certificate(own, authorities, plan.now_s, out);
  examine_key(plan.files.key, out);
  examine_authority(plan.files.authorities, authorities, plan.now_s, out);
}

void examine_programs(const SecurityPlan& plan, Findings& out) {
  if (!plan.unasked.ok()) {
    return out.add("cluster", Verdict::kWarning, absl::StrCat("not asked whom it lets in: ", plan.unasked.message()),
                   "mend the files of --cert, --key and --ca, as the findings below say",
                   "with files that cannot be used, the control plane is not asked");
  }
  const bool nobody = absl::IsUnavailable(plan.refusal) || absl::IsDeadlineExceeded(plan.refusal);
  if (!plan.refusal.ok() && !nobody) {
    return out.add("cluster", Verdict::kFailure,
                   absl::StrCat("no status from the control plane: ", plan.refusal.message()),
                   "give --control-address, --cert, --key and --ca of the cluster (skuactl cert show FILE says whose "
                   "they are); an administrator sees with skuactl cert revoked who is not let in",
                   "programs with these files and this address get the same answer");
  }
  const std::vector<ProgramSeen>& programs = plan.programs;
  if (programs.empty()) return;
  constexpr size_t kNamesMax = 4;
  std::vector<std::string> open;
  bool some_accept = false;
  bool all_have_certificates = true;
  for (const ProgramSeen& program : programs) {
    all_have_certificates &= program.security.admission == control::Admission::kCertificates;
    some_accept |= program.security.admission == control::Admission::kAccept;
    if (program.security.admission != control::Admission::kUnsafe) continue;
    if (open.size() == kNamesMax) open.emplace_back("others");
    if (open.size() < kNamesMax) open.push_back(program.name);
  }
  if (!open.empty()) {
    return out.add(
        "cluster", Verdict::kWarning, absl::StrCat("OFF-UNSAFE: ", absl::StrJoin(open, ", ")),
        "start them with certificates, or on 127.0.0.1, and without --security off-unsafe (docs/security.md)",
        "whoever reaches them may read, change and delete everything");
  }
  if (some_accept) {
    return out.add(
        "cluster", Verdict::kWarning, "ACCEPT: some programs take peers without certificates, too",
        "when skuactl status shows that nobody comes without, restart the programs one after the other without "
        "--security accept",
        "whoever reaches them without a certificate is still let in");
  }
  out.add("cluster", Verdict::kOk,
          all_have_certificates ? "all programs want certificates" : "no program says that it lets in everybody", "",
          "skuactl status shows it for each");
}

}  // namespace

std::vector<Finding> examine_security(const SecurityPlan& plan) {
  Findings out("security");
  examine_programs(plan, out);
  if (plan.files.empty()) {
    out.add("certificate", Verdict::kWarning, "none is given (--cert, --key, --ca)",
            "skuactl cert init makes an authority, skuactl cert issue certificates (docs/security.md)",
            "without certificates, servers listen on 127.0.0.1 only; elsewhere, with --security off-unsafe, whoever "
            "reaches them is let in, and packets are not encrypted");
    return out.take();
  }
  examine_files(plan, out);
  out.add("cipher", plan.has_fast_cipher ? Verdict::kOk : Verdict::kWarning,
          plan.has_fast_cipher ? "AES-GCM by libipsec-mb" : "AES-GCM by OpenSSL",
          "use a processor with AES instructions, and a build with libipsec-mb-dev",
          "packets are encrypted with it; OpenSSL takes about four times as long for a small one");
  return out.take();
}

}  // namespace skua::kv::ctl
