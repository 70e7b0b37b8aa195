#include "rpc/transport/tcp/race.h"

namespace skua::rpc::tcp {

Verdict decide_race(const Hello& hello, const Uuid& self, const LinkView& view) {
  if (view.has_link) {
    const bool restarted = hello.sender.incarnation != view.link_incarnation;
    const bool redialled = hello.dial_number > view.link_dial_number;
    return restarted || redialled ? Verdict::kReplace : Verdict::kRefuseStale;
  }
  if (view.dial == DialState::kHelloSent && self > hello.sender.uuid) return Verdict::kRefuseRace;
  return Verdict::kAccept;
}

}  // namespace skua::rpc::tcp
