#include "kvstore/ctl/doctor_security.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "app/file.h"

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

Finding with_certificate(Verdict verdict, std::string detail, std::string remedy) {
  return {"security",        "certificate",     verdict,
          std::move(detail), std::move(remedy), "with a certificate that others refuse, a program reaches nobody"};
}

Finding examine_key(const std::string& path) {
  struct stat file {};
  const bool is_open = stat(path.c_str(), &file) == 0 && (file.st_mode & kOfOthers) != 0;
  return {"security",
          "private key",
          is_open ? Verdict::kWarning : Verdict::kOk,
          is_open ? absl::StrFormat("%s may be used by others (mode %04o)", path, file.st_mode & 07777)
                  : absl::StrCat(path, " is its owner's alone"),
          is_open ? absl::StrCat("chmod 600 ", path) : "",
          "whoever reads the key can be this program"};
}

Finding examine_authority(const std::string& path, std::string_view text, WallSeconds now_s) {
  const absl::StatusOr<CertificateInfo> info = control::inspect_certificate(text);
  Finding out{"security", "authority", Verdict::kOk, "", "", "without its authority no certificate is believed"};
  if (!info.ok()) {
    out.verdict = Verdict::kFailure;
    out.detail = absl::StrCat(path, ": ", info.status().message());
    out.remedy = "give --ca the ca.pem that skuactl cert init made";
    return out;
  }
  const std::string trouble = control::expiry_trouble(*info, now_s);
  out.detail = absl::StrCat("of cluster ", info->cluster_id, ", ", time_left(*info, now_s));
  if (!trouble.empty()) {
    out.verdict = info->valid.until <= now_s ? Verdict::kFailure : Verdict::kWarning;
    out.remedy = "have a new authority made, and let all programs believe both for a while (docs/security.md)";
  }
  return out;
}

/// The certificate, its key and the authorities together.
Finding examine_certificate(const CertificateAndKey& own, std::string_view authorities, WallSeconds now_s) {
  const absl::StatusOr<CertificateInfo> info = control::inspect_certificate(own.certificate);
  if (!info.ok()) {
    return with_certificate(Verdict::kFailure, std::string(info.status().message()), "skuactl cert issue makes one");
  }
  if (const absl::Status status = control::check_credentials(own, authorities, now_s); !status.ok()) {
    return with_certificate(
        Verdict::kFailure, std::string(status.message()),
        "give the files that belong together, or have the certificate issued anew: skuactl cert issue");
  }
  const std::string name = info->identity.has_value() ? info->identity->principal() : "an authority";
  const std::string trouble = control::expiry_trouble(*info, now_s);
  return with_certificate(trouble.empty() ? Verdict::kOk : Verdict::kWarning,
                          absl::StrCat(name, ", ", time_left(*info, now_s)),
                          trouble.empty() ? "" : "have a new one issued, into the same files; no restart is needed");
}

void examine_files(const SecurityPlan& plan, std::vector<Finding>& out) {
  CertificateAndKey own;
  std::string authorities;
  const std::pair<const std::string*, std::string*> files[] = {{&plan.files.certificate, &own.certificate},
                                                               {&plan.files.key, &own.key},
                                                               {&plan.files.authorities, &authorities}};
  for (const auto& [path, text] : files) {
    if (path->empty()) {
      out.push_back(with_certificate(Verdict::kFailure, "--cert, --key and --ca belong together, and one is missing",
                                     "give all three"));
      return;
    }
    absl::StatusOr<std::string> read = app::read_file(*path, kFileBytesMax);
    if (!read.ok()) {
      out.push_back(with_certificate(Verdict::kFailure, std::string(read.status().message()),
                                     absl::StrCat("let this user read ", *path, ", or give another file")));
      return;
    }
    *text = *std::move(read);
  }
  out.push_back(examine_certificate(own, authorities, plan.now_s));
  out.push_back(examine_key(plan.files.key));
  out.push_back(examine_authority(plan.files.authorities, authorities, plan.now_s));
}

}  // namespace

std::vector<Finding> examine_security(const SecurityPlan& plan) {
  std::vector<Finding> out;
  if (plan.files.empty()) {
    out.push_back({"security", "certificate", Verdict::kWarning, "none is given (--cert, --key, --ca)",
                   "skuactl cert init makes an authority, skuactl cert issue certificates (docs/security.md)",
                   "without certificates, whoever reaches the cluster's addresses is let in, and packets are not "
                   "encrypted"});
    return out;
  }
  examine_files(plan, out);
  out.push_back({"security", "cipher", plan.has_fast_cipher ? Verdict::kOk : Verdict::kWarning,
                 plan.has_fast_cipher ? "AES-GCM by libipsec-mb" : "AES-GCM by OpenSSL",
                 plan.has_fast_cipher ? "" : "use a processor with AES instructions, and a build with libipsec-mb-dev",
                 "packets are encrypted with it; OpenSSL takes about four times as long for a small one"});
  return out;
}

}  // namespace skua::kv::ctl
