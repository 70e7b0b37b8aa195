// What must hold of a world, whatever happened in it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "rpc/base/check.h"
#include "tests/fuzz/node_world.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::fuzz {
namespace {

/// The client, and one from each of worker and peer to the other.
constexpr size_t kSessionsAtRest = 3;
constexpr int kReadyTriesMax = 20;

}  // namespace

/// The answers to requests that are sent at once.
NodeWorld::Texts NodeWorld::ask(Method method, const Texts& requests) {
  Texts answers(requests.size());
  size_t missing = requests.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto called = client_->call(client_session_, static_cast<rpc::MethodId>(method),
                                      rpc::MessagePtr::copy_of(as_byte_span(requests[i])), {.timeout_ns = 20 * kSecond},
                                      [&missing, &answer = answers[i]](rpc::CallResult&& result) {
                                        if (!result.status.ok())
                                          fail(absl::StrCat("the client's call: ", result.status.ToString()));
                                        answer = as_string_view(result.response.bytes());
                                        --missing;
                                      });
    if (!called.ok()) fail(absl::StrCat("the client cannot call: ", called.status().ToString()));
  }
  stir(kClient);
  rest();
  for (int i = 0; i < 2000 && missing > 0; ++i) pass(10 * kMillisecond);
  if (missing > 0) fail("the client is not answered");
  return answers;
}

/// False: a shard is not ready yet.
bool NodeWorld::check_shards() {
  const std::string value = absl::StrCat("value ", ++written_);
  Texts puts;
  Texts gets;
  HeadBuffer head;
  for (const ShardId shard : {kPlain, kAlone}) {
    const Route route{shard.table_id, shard.shard, views_[shard].epoch, kMapRevision};
    puts.emplace_back(
        as_string_view(encode_mutation_head({route, mutations::put(kHonestKey, as_byte_span(value))}, head).value()));
    puts.back().append(value);
    gets.emplace_back(as_string_view(encode_get({route, kHonestKey}, head).value()));
  }
  for (const std::string& answer : ask(Method::kPut, puts)) {
    const auto written = decode_write_reply(as_byte_span(answer));
    if (!written.ok()) fail("the answer to a PUT is none");
    if (written->head.status == KvStatus::kOk) continue;
    // A replica waits for promises that it may have given before it was restarted.
    if (written->head.status == KvStatus::kWrongShard && written->head.epoch == views_[kAlone].epoch) return false;
    fail(absl::StrCat("a PUT: ", status_name(written->head.status), " ", std::string(written->head.text)));
  }
  for (const std::string& answer : ask(Method::kGet, gets)) {
    const auto read = decode_get_reply(as_byte_span(answer));
    if (!read.ok()) fail("the answer to a GET is none");
    if (read->head.status == KvStatus::kOk && as_string_view(read->value) == value) continue;
    fail(absl::StrCat("a GET: ", status_name(read->head.status), " ", std::string(read->head.text)));
  }
  return true;
}

void NodeWorld::check_client() {
  for (int tries = 1; !check_shards(); ++tries) {
    if (tries == kReadyTriesMax) fail("a shard that needs nobody else is not served again");
    pass(kLeaseNs);
  }
  if (client_->counters().sessions_broken != 0) fail("the client's session was broken");
}

void NodeWorld::check_balance() {
  // What was offered in others' names can be ended by nobody: it goes when it has been silent.
  if (endpoint_->session_count() > kSessionsAtRest) pass(kIdleTimeoutNs + kSecond);
  if (endpoint_->session_count() > kSessionsAtRest) fail("sessions that nobody speaks in do not end");
  rpc::Endpoint::Balance left;
  for (int i = 0; i < 100; ++i) {
    left = endpoint_->balance();
    if (left.calls + left.handlers + left.lent_buffers + left.pool_buffers + left.messages + left.credits_missing ==
        0) {
      return;
    }
    // Not in step with heartbeats, one of which would be under way at each look.
    pass(97 * kMillisecond + i * 1300 * kMicrosecond);
  }
  fail(absl::StrCat("left over: calls ", left.calls, " handlers ", left.handlers, " lent ", left.lent_buffers, " pool ",
                    left.pool_buffers, " messages ", left.messages, " credits ", left.credits_missing));
}

void NodeWorld::check_proofs() {
  const uint64_t messages = replication_->counters().messages_received;
  if (messages > peer_messages_) fail(absl::StrCat("replicas got ", messages, " messages, of ", peer_messages_));
  if (exports_ > peer_fetches_)
    fail(absl::StrCat(exports_, " copies were made, the peer asked ", peer_fetches_, " times"));
}

}  // namespace skua::kv::fuzz
