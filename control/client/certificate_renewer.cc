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
/// The wall clock may be set meanwhile.
constexpr WallSeconds kSleepMaxS = 30;

}  // namespace

WallSeconds next_renewal(const CertificateInfo& info, int failures, WallSeconds now) {
  if (failures == 0) return renewal_time(info);
  const WallSeconds most = std::clamp<WallSeconds>((info.valid.until - renewal_time(info)) / 8, 1, kPauseMaxS);
  return now + std::min(WallSeconds{1} << std::min(failures - 1, 20), most);
}

CertificateRenewer::CertificateRenewer(CertificateRenewerOptions options) : options_(std::move(options)) {
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

void CertificateRenewer::run() {
  CertificateInfo info = options_.credentials->certificate();
  int failures = 0;
  while (true) {
    if (!sleep_until(next_renewal(info, failures, std::time(nullptr)))) return;
    AdminClient admin(options_.control_address, kAttemptTimeout, options_.credentials);
    absl::StatusOr<CertificateInfo> renewed = renew(options_.files, true, admin);
    if (renewed.ok()) {
      info = *std::move(renewed);
      failures = 0;
      told_.clear();
      if (options_.log) {
        options_.log(false,
                     absl::StrCat("the certificate was renewed, it is valid until ", wall_time_text(info.valid.until)));
      }
      continue;
    }
    ++failures;
    failed(renewed.status(), std::time(nullptr));
  }
}

bool CertificateRenewer::sleep_until(WallSeconds at) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const WallSeconds left = at - std::time(nullptr);
    if (left <= 0) return true;
    wake_.wait_for(lock, std::chrono::seconds(std::min(left, kSleepMaxS)));
  }
  return false;
}

void CertificateRenewer::failed(const absl::Status& why, WallSeconds now) {
  std::string text(why.message());
  if (text == told_ && now - told_s_ < kTellAgainS) return;
  told_ = text;
  told_s_ = now;
  if (options_.log) {
    options_.log(true, absl::StrCat("the certificate could not be renewed, it is tried again: ", text));
  }
}

}  // namespace skua::control
