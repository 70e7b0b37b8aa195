// The one rule that leaves exactly one connection between two endpoints, whoever dialled and when.
//
// Both may dial at the same moment. Then each sees the other's hello while its own is under way,
// and both must keep the same connection without another round trip:
//
//      A (higher uuid)                     B (lower uuid)
//      hello  -------------.     .------------  hello
//                           \   /
//                            \ /
//      B's hello: mine is     X      A's hello: the higher uuid's connection wins,
//      under way and wins,   / \     so I give up my dial and accept this one
//      refuse with kRace    '   '
//
// A hello that arrives while a connection stands is either late (sent before that connection was
// agreed on, and overtaken) or a sign that the other side lost the connection. The dial number
// tells: each side knows, from the hello or the reply that made the connection, the last dial
// number the other had used by then. A higher one was dialled later, so it replaces.
#ifndef SKUA_RPC_TRANSPORT_TCP_RACE_H_
#define SKUA_RPC_TRANSPORT_TCP_RACE_H_

#include <cstdint>

#include "rpc/transport/descriptor.h"
#include "rpc/transport/tcp/hello.h"

namespace skua::rpc::tcp {

enum class DialState : uint8_t {
  kNone,
  /// TCP is not through yet: our hello cannot have been seen.
  kConnecting,
  /// Our hello may have been seen, or even accepted.
  kHelloSent,
};

/// What the receiver of a hello holds towards its sender.
struct LinkView {
  DialState dial = DialState::kNone;
  bool has_link = false;
  /// Of the standing connection: the peer's incarnation, and its last dial number known then.
  uint64_t link_incarnation = 0;
  uint64_t link_dial_number = 0;
};

enum class Verdict : uint8_t {
  kAccept,       // and give up a dial of our own, if any
  kReplace,      // the same, after closing the connection that stands
  kRefuseRace,   // our own dial wins
  kRefuseStale,  // the connection that stands is newer
};

/// Pure. `self` differs from `hello.sender.uuid` (judge_hello refused that).
[[nodiscard]] Verdict decide_race(const Hello& hello, const Uuid& self, const LinkView& view);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_RACE_H_
