#include "control/server/status_board.h"

#include "absl/strings/str_cat.h"
#include "control/server/controller_limits.h"

namespace skua::control {

void StatusBoard::ask(TimeNs now, uint64_t generation, AnswerFn answer) {
  StatusMessage fresh;
  bool refused = false;
  bool make = false;
  {
    std::lock_guard lock(mutex_);
    if (copy_ != nullptr && generation_ == generation && now - made_ns_ < kStatusAge) {
      fresh = copy_;
    } else if (waiting_.size() >= kStatusWaitersMax) {
      refused = true;
    } else {
      waiting_.push_back(std::move(answer));
      answer = nullptr;
      make = !std::exchange(making_, true);
    }
  }
  if (fresh != nullptr) return answer(fresh);
  if (refused) {
    return answer(absl::ResourceExhaustedError(absl::StrCat(
        kStatusWaitersMax,
        " requests wait for the cluster's status, which is the limit (kStatusWaitersMax). Try again in a second")));
  }
  if (!make) return;
  if (auto status = make_(); !status.ok()) post(status, now, generation);
}

void StatusBoard::post(absl::StatusOr<StatusMessage> status, TimeNs now, uint64_t generation) {
  std::vector<AnswerFn> waiting;
  {
    std::lock_guard lock(mutex_);
    making_ = false;
    copy_ = status.ok() ? *status : nullptr;
    made_ns_ = now;
    generation_ = generation;
    waiting = std::exchange(waiting_, {});
  }
  for (const AnswerFn& answer : waiting) answer(status);
}

}  // namespace skua::control
