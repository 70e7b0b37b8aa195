// Which of several control processes on one metadata store leads: the others keep their hands off the cluster and name
// the leader to whoever asks them.
#ifndef SKUA_CONTROL_STORE_ELECTION_H_
#define SKUA_CONTROL_STORE_ELECTION_H_

#include <cstdint>
#include <functional>
#include <string>

namespace skua::control {

struct Leadership {
  bool leads = false;
  /// Different whenever the leader is; 0 if nobody leads or it is not known.
  uint64_t term = 0;
  /// "host:port" of the leader; empty if nobody leads or it is not known.
  std::string leader;
  /// Why that is not known, for people; may be empty.
  std::string trouble;

  friend bool operator==(const Leadership&, const Leadership&) = default;
};

class Election {
 public:
  virtual ~Election() = default;

  /// Takes part from now on. `changed` runs on the election's thread, after every change; before the first nobody
  /// leads. When it says that this process leads, the store takes changes of this term only. Once.
  virtual void start(const std::string& own_address, std::function<void(const Leadership&)> changed) = 0;

  /// Gives up the lead, if it has it, and joins the thread; `changed` is not called any more. Idempotent.
  virtual void stop() = 0;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ELECTION_H_
