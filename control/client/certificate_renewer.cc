#include "control/client/certificate_renewer.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/client/join_client.h"
#include "control/security/certificate_files.h"

namespace skua::control {
namespace {

constexpr WallSeconds kPauseMaxS = 300;
constexpr WallSeconds kTellAgainS = 3600;
constexpr DurationNs kAttemptTimeout = 5 * kSecond;

}  // namespace

WallSeconds next_renewal(const CertificateInfo& info, int failures, WallSeconds now) {
  if (failures == 0) return renewal_time(info);
  const WallSeconds most = std::clamp<WallSeconds>((info.valid.until - renewal_time(info)) / 8, 1, kPauseMaxS);
  return std::max(renewal_time(info), now + std::min(WallSeconds{1} << std::min(failures - 1, 20), most));
}

CertificateRenewer::CertificateRenewer(CertificateRenewerOptions options)
    : options_(std::move(options)), info_(options_.credentials->certificate()) {
  thread_ = std::thread([this] { run(); });
}

CertificateRenewer::~CertificateRenewer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

absl::StatusOr<CertificateInfo> CertificateRenewer::attempt() const {
  if (options_.source) return renew_from(options_.files, true, options_.source);
  AdminClient admin(options_.control_address, kAttemptTimeout, options_.credentials);
  return renew(options_.files, true, admin);
}

void CertificateRenewer::run() {
  int failures = 0;
  while (sleep_until_due(failures)) {
    const absl::StatusOr<CertificateInfo> renewed = attempt();
    if (renewed.ok()) {
      failures = 0;
      refused_serial_.clear();
      told_.clear();
      if (options_.log) {
        options_.log(false, absl::StrCat("the certificate was renewed, it is valid until ",
                                         wall_time_text(renewed->valid.until)));
      }
      continue;
    }
    ++failures;
    refused_serial_ = absl::IsInvalidArgument(renewed.status()) ? info_.serial : "";
    failed(renewed.status(), std::time(nullptr));
  }
}

void CertificateRenewer::look_at_file() {
  const absl::StatusOr<std::string> text = read_certificate_file(options_.files.certificate);
  if (!text.ok()) return;
  if (absl::StatusOr<CertificateInfo> found = inspect_certificate(*text); found.ok()) info_ = *std::move(found);
}

WallSeconds CertificateRenewer::due(int failures, WallSeconds began) const {
  if (refused_serial_.empty()) return next_renewal(info_, failures, began);
  // What was refused says nothing of another certificate.
  return info_.serial == refused_serial_ ? began + kRefusedPauseS : next_renewal(info_, 0, began);
}

bool CertificateRenewer::sleep_until_due(int failures) {
  const WallSeconds began = std::time(nullptr);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    look_at_file();
    const WallSeconds left = due(failures, began) - std::time(nullptr);
    if (left <= 0) return true;
    wake_.wait_for(lock, std::chrono::seconds(std::min(left, options_.look_again_s)));
  }
  return false;
}

void CertificateRenewer::failed(const absl::Status& why, WallSeconds now) {
  std::string text(why.message());
  if (text == told_ && now - told_s_ < kTellAgainS) return;
  told_ = text;
  told_s_ = now;
  if (options_.log) {
    const char* const then =
        refused_serial_.empty() ? "it is tried again" : "it is tried when its file has another one";
    options_.log(true, absl::StrCat("the certificate could not be renewed, ", then, ": ", text));
  }
}

}  // namespace skua::control
