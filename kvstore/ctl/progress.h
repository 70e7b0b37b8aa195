// What long commands tell: how far they are, by a line on standard error now and then, and the command that goes on
// where one stopped.
#ifndef SKUA_KVSTORE_CTL_PROGRESS_H_
#define SKUA_KVSTORE_CTL_PROGRESS_H_

#include <functional>
#include <string>
#include <vector>

#include "app/config.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {

/// A command that is done within two seconds tells nothing. Thread: one.
class Progress {
 public:
  /// Tells nothing at all unless `shown`.
  explicit Progress(bool shown = true) : shown_(shown), told_ns_(SteadyClock().now_ns()) {}

  /// Prints what `text` returns, if the last line is two seconds old.
  void tell(const std::function<std::string()>& text);

 private:
  const bool shown_;
  TimeNs told_ns_;
};

/// `skuactl`, the options of skuactl itself that were given on the command line, and `words`, each quoted if a shell
/// wants that. `program` has parsed its command line.
[[nodiscard]] std::string command_line(const app::Program& program, const std::vector<std::string>& words);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_PROGRESS_H_
