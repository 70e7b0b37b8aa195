// Surroundings of sessions that never run: for tests of what holds sessions, or asks them who they are.
#ifndef SKUA_TESTS_RPC_ENDPOINT_IDLE_SESSION_HOST_H_
#define SKUA_TESTS_RPC_ENDPOINT_IDLE_SESSION_HOST_H_

#include <optional>

#include "rpc/base/check.h"
#include "rpc/protocol/session.h"

namespace skua::rpc::testing {

class IdleSessionHost : public SessionHost {
 public:
  void mark_ready(Session& /*session*/) override {}
  PacketSink* express(const Session& /*session*/) override { return nullptr; }
  void arm_timer(Session& /*session*/, TimeNs /*when*/) override {}
  bool keep(const Arrival& /*arrival*/, Lease& /*lease*/) override { return false; }
  std::optional<Assembly> assemble(const Session& /*session*/, size_t /*bytes*/, bool /*is_request*/) override {
    return std::nullopt;
  }
  [[nodiscard]] size_t assembly_bytes_max() const override { return SIZE_MAX; }
  MessagePtr make_message() override { return messages_.make(); }
  Announcement announce(const MessageOwner& /*owner*/, const MessagePtr& /*message*/) override { return {}; }
  Fetch fetch(const MessageOwner& /*owner*/, const ReadList& /*list*/, uint32_t /*message_bytes*/) override {
    return Fetch::kImpossible;
  }
  void sever(const Session& /*session*/) override {}
  void deliver(Session& /*session*/, ArrivedRequest&& /*request*/) override {}
  [[nodiscard]] bool takes_one_way(uint16_t /*method*/) const override { return false; }
  void complete(Call& /*call*/) override {}
  bool start_small(Session& /*session*/, Call& /*call*/) override { return false; }
  Call& take_over(Session& /*session*/) override { SKUA_CHECK(false, "an idle session has no small calls"); }
  void count_drop(DropReason /*reason*/) override {}
  void count_retransmit() override {}
  void count_copied(size_t /*bytes*/) override {}

 private:
  MessagePool messages_{16};
};

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_ENDPOINT_IDLE_SESSION_HOST_H_
