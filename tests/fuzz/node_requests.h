// Requests and messages to a node, made of a fuzzer's decisions: sound ones, almost sound ones, and any bytes.
#ifndef SKUA_TESTS_FUZZ_NODE_REQUESTS_H_
#define SKUA_TESTS_FUZZ_NODE_REQUESTS_H_

#include <string>

#include "kvstore/codec/methods.h"
#include "kvstore/replication/append_builder.h"
#include "kvstore/replication/copy_codec.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/node_world.h"
#include "tests/fuzz/replica_messages.h"

namespace skua::kv::fuzz {

using skua::fuzz::FuzzInput;

/// Mostly one of the worker's methods.
[[nodiscard]] Method pick_method(FuzzInput& in);
/// What a request of `method` may look like.
[[nodiscard]] std::string make_request(FuzzInput& in, NodeWorld& world, Method method);
/// What replicas say to each other: a frame of REPLICATE, or a reply.
[[nodiscard]] std::string make_frame(FuzzInput& in, NodeWorld& world);
/// What the peer may answer to the worker's REPLICATE, FETCH_CHUNK or FETCH_TAIL.
[[nodiscard]] std::string make_answer(FuzzInput& in, NodeWorld& world);

/// The payload of a log's record.
[[nodiscard]] std::string make_payload(FuzzInput& in, EntryId id);

}  // namespace skua::kv::fuzz

#endif  // SKUA_TESTS_FUZZ_NODE_REQUESTS_H_
