#include "kvstore/ctl/progress.h"

#include <cstdio>

#include "app/exit.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {
namespace {

constexpr DurationNs kPauseBetweenLines = 2 * kSecond;

}  // namespace

void Progress::tell(const std::function<std::string()>& text) {
  if (!shown_) return;
  const TimeNs now_ns = SteadyClock().now_ns();
  if (now_ns - told_ns_ < kPauseBetweenLines) return;
  told_ns_ = now_ns;
  std::fputs(app::error_line(kProgram, text()).c_str(), stderr);
}

}  // namespace skua::kv::ctl
