// StrangerWatch: whether somebody who is no node is answered as if it were one.
//
// It sees what the stranger sends in its sessions and the heads of what comes back. A request of a method that only
// nodes may use must not be answered with OK, whoever the session's offer named.
#ifndef SKUA_TESTS_FUZZ_STRANGER_WATCH_H_
#define SKUA_TESTS_FUZZ_STRANGER_WATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "kvstore/codec/methods.h"
#include "rpc/wire/packet_header.h"

namespace skua::kv::fuzz {

/// Ends the program: something that must hold does not.
[[noreturn]] void fail(const std::string& what);

/// The numbers of a session at the worker, which whoever speaks in it must know.
struct WireSession {
  uint32_t index = 0;
  uint32_t generation = 0;
};

class StrangerWatch {
 public:
  /// The worker has taken an offer: its numbers of the session, and the stranger's.
  void on_session(WireSession at_worker, WireSession own) { sessions_[{at_worker.index, at_worker.generation}] = own; }
  void on_sent(const rpc::PacketHeader& header) {
    if (header.type != rpc::PacketType::kRequest) return;
    const auto session = sessions_.find({header.session_index, header.session_generation});
    if (session == sessions_.end()) return;
    const WireSession own = session->second;
    Sent& sent = sent_[{own.index, own.generation, header.req_num}];
    (is_for_nodes(static_cast<Method>(header.method)) ? sent.for_nodes : sent.others) = true;
  }
  void on_received(const rpc::PacketHeader& header) const {
    if (header.type != rpc::PacketType::kResponse || header.method != static_cast<uint16_t>(absl::StatusCode::kOk))
      return;
    const auto sent = sent_.find({header.session_index, header.session_generation, header.req_num});
    if (sent == sent_.end() || sent->second.others || !sent->second.for_nodes) return;
    fail("a stranger is answered as a node is");
  }
  /// Its sessions have ended.
  void clear() {
    sessions_.clear();
    sent_.clear();
  }

 private:
  /// What went by one number. The stranger may use it again, with another method.
  struct Sent {
    bool for_nodes = false;
    bool others = false;
  };
  [[nodiscard]] static bool is_for_nodes(Method method) {
    return method == Method::kReplicate || method == Method::kFetchChunk || method == Method::kFetchTail;
  }

  std::map<std::pair<uint32_t, uint32_t>, WireSession> sessions_;  // by their numbers at the worker
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Sent> sent_;  // by the stranger's numbers, and the request's
};

}  // namespace skua::kv::fuzz

#endif  // SKUA_TESTS_FUZZ_STRANGER_WATCH_H_
