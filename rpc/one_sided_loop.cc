#include "rpc/one_sided_loop.h"

#include <array>

#include "rpc/base/check.h"

namespace skua::rpc {

size_t OneSidedLoop::reap_and_post() {
  size_t work = 0;
  std::array<OneSidedCompletion, kBurstMax> completions;
  while (const size_t count = context_.one_sided->reap(completions)) {
    work += count;
    for (size_t i = 0; i < count; ++i) on_completion(completions[i]);
  }
  work += operations_.run_waiting();
  return work + reads_.post_reads();
}

void OneSidedLoop::on_completion(const OneSidedCompletion& completion) {
  using Kind = OneSidedCompletion::Kind;
  if (completion.kind == Kind::kNotice) return operations_.tell_notice(completion);
  if (completion.kind == Kind::kOperation && operations_.on_completion(completion)) return;
  reads_.on_completion(completion);
}

void OneSidedLoop::end() {
  if (context_.one_sided == nullptr) return;
  context_.sessions.for_each([this](const SessionEntry& entry) {
    if (entry.peer != kUnbound) context_.one_sided->sever(entry.peer);
  });
  reads_.stop_reading();
  std::array<OneSidedCompletion, kBurstMax> completions;
  while (reads_.reads_in_flight() + operations_.in_flight() > 0) {
    const size_t count = context_.one_sided->reap(completions);
    SKUA_CHECK(count > 0, "the transport keeps memory that it was told to let go");
    for (size_t i = 0; i < count; ++i) {
      if (completions[i].kind != OneSidedCompletion::Kind::kOperation) continue;
      if (!operations_.on_completion(completions[i])) reads_.drop_read(completions[i]);
    }
  }
  reads_.forget_loans();
  operations_.end_waiting();
}

}  // namespace skua::rpc
