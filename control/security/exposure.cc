#include "control/security/exposure.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skua::control {
namespace {

/// The entrances that can be reached from elsewhere.
std::string open_entrances(const std::vector<Entrance>& entrances) {
  std::vector<std::string> open;
  for (const Entrance& entrance : entrances) {
    if (!entrance.is_local) open.push_back(entrance.option);
  }
  return absl::StrJoin(open, " and ");
}

/// The commands that make what is missing.
std::string how_to_get_certificates(const std::string& role) {
  return absl::StrCat("give it a certificate (skuactl cert init ca && skuactl cert issue ", role,
                      " --authority ca --out certs, then --cert, --key and --ca; docs/security.md)");
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<Admission> judge_exposure(SecurityChoice choice, bool has_certificates,
                                         const std::vector<Entrance>& entrances, const std::string& role) {
  if (has_certificates) {
    switch (choice) {
      case SecurityChoice::kAuto: return Admission::kCertificates;
      case SecurityChoice::kAccept: return Admission::kAccept;
      case SecurityChoice::kOffUnsafe: break;
    }
    return absl::InvalidArgumentError(
        "--security off-unsafe is for programs without certificates, and --cert, --key and --ca are given: leave one "
        "or the other away");
  }
  if (choice == SecurityChoice::kAccept) {
    return absl::InvalidArgumentError(
        absl::StrCat("--security accept is for programs with certificates, which take "
                     "peers without: ",
                     how_to_get_certificates(role)));
  }
  const std::string open = open_entrances(entrances);
  if (open.empty()) return Admission::kLoopback;
  if (choice == SecurityChoice::kOffUnsafe) return Admission::kUnsafe;
  return absl::InvalidArgumentError(
      absl::StrCat(open, " can be reached from other machines, and without certificates whoever does is let in: ",
                   how_to_get_certificates(role), ", listen on 127.0.0.1, or allow it with --security off-unsafe"));
}

std::string unsafe_warning(Admission admission, const std::vector<Entrance>& entrances, const std::string& role) {
  const std::string open = open_entrances(entrances);
  if (open.empty()) return {};
  if (admission == Admission::kUnsafe) {
    return absl::StrCat("security is off: whoever reaches ", open,
                        " may read, change and delete everything (--security off-unsafe). To end that, ",
                        how_to_get_certificates(role));
  }
  if (admission != Admission::kAccept) return {};
  return absl::StrCat("whoever reaches ", open,
                      " without a certificate is still let in (--security accept). When skuactl status shows that "
                      "nobody comes without, restart this program without --security accept (docs/security.md)");
}

}  // namespace skua::control
