// What replicas say to each other, made of a fuzzer's decisions.
#ifndef SKUA_TESTS_FUZZ_REPLICA_MESSAGES_H_
#define SKUA_TESTS_FUZZ_REPLICA_MESSAGES_H_

#include <cstdint>

#include "kvstore/replication/messages.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::kv::fuzz {

using skua::fuzz::FuzzInput;

/// Any message. Its numbers are next to those of a replica that has the view and whose log ends at `last`; `sent_ns` is
/// of a heartbeat that somebody sent.
[[nodiscard]] ReplicaMessage make_message(FuzzInput& in, const View& view, uint64_t last, TimeNs sent_ns);

}  // namespace skua::kv::fuzz

#endif  // SKUA_TESTS_FUZZ_REPLICA_MESSAGES_H_
