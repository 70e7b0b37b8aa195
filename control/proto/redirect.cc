#include "control/proto/redirect.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

constexpr const char* kPayload = "skua.control/leader";
constexpr const char* kLeadsPayload = "skua.control/leads";

}  // namespace

absl::Status not_leading(const std::string& leader, const std::string& trouble) {
  std::string message = "no control process leads at the moment; one will within seconds";
  if (!leader.empty()) {
    message = absl::StrCat("this control process does not lead, ", leader,
                           " does; give the addresses of all: --control-address HOST:PORT,HOST:PORT");
  } else if (!trouble.empty()) {
    message = absl::StrCat("this control process does not lead, and cannot find out who does: ", trouble);
  }
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kPayload, absl::Cord(leader));
  return status;
}

std::optional<std::string> redirected_to(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

std::optional<std::string> redirected_to(const grpc::ClientContext& context) {
  const auto& trailer = context.GetServerTrailingMetadata();
  const auto found = trailer.find(kLeaderMetadata);
  if (found == trailer.end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

void mark_leaders_answer(absl::Status& status) {
  if (status.code() == absl::StatusCode::kUnavailable) status.SetPayload(kLeadsPayload, absl::Cord());
}

bool is_leaders_answer(const absl::Status& status) {
  return status.GetPayload(kLeadsPayload).has_value();
}

bool is_leaders_answer(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().contains(kLeadsMetadata);
}

}  // namespace skua::control
