#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/sim/rpc_world_internal.h"

namespace skua::rpc::sim {
namespace {

constexpr DurationNs kDeadlineSlack = 2 * kMillisecond;

std::byte pattern(uint64_t call_id, size_t at) {
  return static_cast<std::byte>(mix64(call_id * 0x9e37 + at / 8) >> (8 * (at % 8)));
}

/// Of a body whose memory is used again.
constexpr size_t kBlockBytes = 8192;

void write_pattern(uint64_t call_id, char* to, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = mix64(call_id * 0x9e37 + at / 8);
    std::memcpy(to + at, &word, std::min<size_t>(8, bytes - at));
  }
}

}  // namespace

void BodyMemory::append_pattern(Message& message, uint64_t call_id, size_t bytes) {
  if (free_.empty()) {
    blocks_.push_back(std::make_unique<Block>());
    blocks_.back()->memory = this;
    free_.push_back(blocks_.back().get());
  }
  Block* block = free_.back();
  free_.pop_back();
  block->bytes.resize(reuse_ ? std::max(bytes, kBlockBytes) : bytes);
  write_pattern(call_id, block->bytes.data(), bytes);
  if (!message.add_body(as_byte_span(block->bytes).first(bytes), release, block)) release(block);
}

void BodyMemory::release(void* context) {
  auto* block = static_cast<Block*>(context);
  std::fill(block->bytes.begin(), block->bytes.end(), '\xee');  // whoever still reads it is found out
  if (!block->memory->reuse_) std::string().swap(block->bytes);
  block->memory->free_.push_back(block);
}

bool matches_pattern(uint64_t call_id, ByteSpan bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    if (load_le<uint64_t>(bytes.data() + at) != mix64(call_id * 0x9e37 + at / 8)) return false;
  }
  for (; at < bytes.size(); ++at) {
    if (bytes[at] != pattern(call_id, at)) return false;
  }
  return true;
}

// --- Handlers --------------------------------------------------------------------------------------------------------

void World::serve(Node& node) {
  for (MethodId method : {kEcho, kDeferred, kNested, kDropToken, kRefuse}) {
    node.endpoint->serve(method, [this, &node](IncomingCall&& call) { handle(node, std::move(call)); },
                         {.one_way = true});
  }
}

void World::handle(Node& node, IncomingCall&& call) {
  ByteReader reader(call.request.bytes());
  RequestHead head;
  head.call_id = reader.read<uint64_t>();
  head.response_bytes = reader.read<uint32_t>();
  static_cast<void>(reader.read<uint32_t>());
  const ByteSpan body = reader.read_rest();
  if (!reader.ok() || head.call_id >= calls_.size()) return violate("a request without its head");
  CallRecord& record = calls_[head.call_id];
  if (++record.handler_runs > 1) violate("the handler of call ", head.call_id, " ran twice");
  if (record.to != node.index || record.method != call.method) violate("call ", head.call_id, " went astray");
  if (!matches_pattern(head.call_id, body)) violate("request ", head.call_id, " arrived damaged");
  if (call.deadline_ns != kTimeNever && call.deadline_ns - node.clock->ahead_ns < record.deadline_ns) {
    violate("the handler of call ", head.call_id, " believes in less time than there is");
  }
  result_.bytes_verified += body.size();
  if (call.one_way) return;
  switch (call.method) {
    case kDropToken: return;
    case kRefuse: return call.reply.fail(absl::FailedPreconditionError("refused on purpose"));
    case kEcho: return reply(std::move(call.reply), head.call_id, head.response_bytes, *node.endpoint);
    default: break;
  }
  Deferred deferred;
  deferred.due_ns = now() + static_cast<DurationNs>(rng_.below(3 * kMillisecond));
  deferred.call_id = head.call_id;
  deferred.response_bytes = head.response_bytes;
  deferred.nested = call.method == kNested;
  deferred.caller = call.session;
  deferred.request = std::move(call.request);
  deferred.reply = std::move(call.reply);
  node.deferred.push_back(std::move(deferred));
}

namespace {

/// What is given as bytes in every other call: as many as sslots keep, and some more.
using Few = std::array<std::byte, 128>;

bool may_be_bytes(const Message& message) {
  return message.size() <= sizeof(Few);
}
ByteSpan bytes_of(const Message& message, Few& few) {
  message.copy_to(few.data());
  return ByteSpan(few).first(message.size());
}

}  // namespace

void World::reply(ReplyToken token, uint64_t call_id, uint32_t response_bytes, Endpoint& endpoint) {
  MessagePtr message = endpoint.make_message();
  append_pattern(*message, call_id + 1, response_bytes);
  Few few;
  if (call_id % 2 == 0 && may_be_bytes(*message)) return token.reply(bytes_of(*message, few));
  token.reply(std::move(message));
}

void World::run_due(Node& node) {
  for (size_t i = 0; i < node.deferred.size();) {
    if (node.deferred[i].due_ns > now()) {
      ++i;
      continue;
    }
    Deferred deferred = std::move(node.deferred[i]);
    node.deferred.erase(node.deferred.begin() + static_cast<std::ptrdiff_t>(i));
    if (!matches_pattern(deferred.call_id, deferred.request.bytes().subspan(sizeof(RequestHead)))) {
      violate("a lease kept past its handler changed, call ", deferred.call_id);
    }
    ++result_.coverage["deferred reply"];
    if (deferred.nested) {
      nested_then_reply(node, std::move(deferred));
    } else {
      reply(std::move(deferred.reply), deferred.call_id, deferred.response_bytes, *node.endpoint);
    }
  }
  while (!node.kept.empty() && node.kept.front().until_ns <= now()) {
    if (!matches_pattern(node.kept.front().call_id, node.kept.front().lease.bytes())) {
      violate("a kept response lease changed");
    }
    node.kept.pop_front();
  }
}

/// Calls the caller back on its own session, then answers.
void World::nested_then_reply(Node& node, Deferred&& deferred) {
  const uint64_t inner = calls_.size();
  const CallRecord outer = calls_[deferred.call_id];
  calls_.push_back({.from = node.index,
                    .to = outer.from,
                    .method = kEcho,
                    .is_small = node.bundles && nodes_[outer.from].bundles,
                    .response_bytes = 32,
                    .deadline_ns = now() + kSecond,
                    .handle = {}});
  MessagePtr request = node.endpoint->make_message();
  const RequestHead head{inner, 32, 0};
  static_cast<void>(request->append_head({reinterpret_cast<const std::byte*>(&head), sizeof head}));
  append_pattern(*request, inner, 100);
  auto token = std::make_shared<ReplyToken>(std::move(deferred.reply));
  auto done = [this, &node, token, inner, outer_id = deferred.call_id,
               bytes = deferred.response_bytes](CallResult&& result) mutable {
    on_complete(inner, std::move(result));
    ++result_.coverage["call to the caller"];
    if (node.up()) reply(std::move(*token), outer_id, bytes, *node.endpoint);
  };
  ++open_calls_;
  absl::StatusOr<CallId> started =
      node.endpoint->call(deferred.caller, kEcho, std::move(request), {.timeout_ns = kSecond, .one_way = false}, done);
  if (!started.ok()) {
    calls_[inner].completed = true;
    --open_calls_;
    reply(std::move(*token), deferred.call_id, deferred.response_bytes, *node.endpoint);
  }
}

// --- Calls -----------------------------------------------------------------------------------------------------------

size_t World::random_size() {
  if (options_.memory_taken_back) return rng_.below(kBlockBytes + 1);
  const uint64_t kind = rng_.below(options_.large_one_in);
  if (kind == 0) return rng_.below(options_.message_max_bytes - sizeof(RequestHead) + 1);
  if (kind < 4) return rng_.below(8) + (rng_.chance(0.5) ? 1024 - 20 : 1024 * rng_.between(1, 4) - 20);
  if (kind == 4) return 0;
  return static_cast<size_t>(std::exp2(rng_.uniform() * 10));
}

SessionId* World::session_to(Node& from, Lane lane) {
  if (const auto found = from.sessions.find(lane); found != from.sessions.end()) return &found->second;
  absl::StatusOr<SessionId> session = open_session(from, lane.first);
  if (!session.ok()) return nullptr;
  from.joined.erase(session->index);
  return &(from.sessions[lane] = *session);
}

bool World::may_be_small(const Node& from, uint32_t to, const CallOptions& options, size_t bytes) const {
  const bool both = from.bundles && nodes_[to].bundles;
  return both && !options.one_way && options.timeout_ns <= 60 * kSecond && bytes < 900;
}

/// As a part of the head, or as a body.
void World::append_pattern(Message& message, uint64_t call_id, size_t bytes) {
  if (bytes > Message::kHeadMax - message.size() || rng_.chance(0.5)) {
    return bodies_.append_pattern(message, call_id, bytes);
  }
  const size_t before = message.size();
  write_pattern(call_id, reinterpret_cast<char*>(message.head_room().data()) + before, bytes);
  message.set_head_size(before + bytes);
}

void World::start_call(Node& from, Lane lane, MethodId method, DurationNs timeout_ns,
                       std::optional<size_t> body_bytes) {
  const uint32_t to = lane.first;
  const SessionId* session = session_to(from, lane);
  if (session == nullptr) return;
  const uint64_t id = calls_.size();
  CallOptions call_options;
  call_options.timeout_ns = options_.fixed_loss >= 0 ? 60 * kSecond
                            : rng_.chance(0.2)       ? static_cast<DurationNs>(rng_.between(1, 2000)) * kMicrosecond
                                                     : static_cast<DurationNs>(rng_.between(100, 5000)) * kMillisecond;
  if (timeout_ns > 0) call_options.timeout_ns = timeout_ns;
  call_options.one_way = timeout_ns == 0 && rng_.chance(0.05);
  const auto response_bytes = static_cast<uint32_t>(random_size());
  MessagePtr request = from.endpoint->make_message();
  const RequestHead head{id, response_bytes, 0};
  static_cast<void>(request->append_head({reinterpret_cast<const std::byte*>(&head), sizeof head}));
  append_pattern(*request, id, body_bytes.value_or(random_size()));
  const bool is_small = may_be_small(from, to, call_options, request->size());
  calls_.push_back(
      {.from = from.index,
       .to = to,
       .method = method,
       .one_way = call_options.one_way,
       .is_small = is_small,
       .before_join = is_small && from.endpoint->is_connected(*session) && !from.joined.contains(session->index),
       .response_bytes = response_bytes,
       .deadline_ns = now() + call_options.timeout_ns,
       .handle = {}});
  ++open_calls_;
  const auto done = [this, id](CallResult&& result) { on_complete(id, std::move(result)); };
  Few few;
  absl::StatusOr<CallId> started =
      id % 2 == 0 && may_be_bytes(*request)
          ? from.endpoint->call(*session, method, bytes_of(*request, few), call_options, done)
          : from.endpoint->call(*session, method, std::move(request), call_options, done);
  if (started.ok()) {
    calls_[id].handle = *started;
    ++result_.calls;
    return;
  }
  --open_calls_;
  calls_[id].completed = true;
  calls_[id].claimed_not_executed = true;
  ++result_.outcomes[absl::StrCat("refused ", absl::StatusCodeToString(started.status().code()))];
  if (started.status().code() == absl::StatusCode::kNotFound) from.sessions.erase(lane);
}

/// A completion does what completions may do: calls, cancels, closes the session.
void World::meddle(Node& node) {
  const uint64_t dice = rng_.below(100);
  if (dice < 3) act_calls(node);
  if (dice == 3) cancel(rng_.below(calls_.size()));
  if (dice == 4 && !node.sessions.empty() && rng_.chance(0.5)) {
    ++result_.coverage["close inside a completion"];
    auto closed = node.sessions.begin();
    std::advance(closed, rng_.below(node.sessions.size()));
    const SessionId session = closed->second;
    node.sessions.erase(closed);
    node.endpoint->close(session);
  }
}

void World::cover_completion(const CallRecord& record, const CallResult& result) {
  if (!record.in_bundle || record.in_packet) return;
  const absl::StatusCode code = result.status.code();
  const char* how = nullptr;
  if (result.from_peer && result.status.ok() && record.response_bytes <= 900) how = "small call answered";
  if (result.from_peer && (!result.status.ok() || record.response_bytes > 4200)) how = "small call answered in packets";
  if (!result.from_peer && code == absl::StatusCode::kDeadlineExceeded) how = "small call timed out";
  if (!result.from_peer && code == absl::StatusCode::kCancelled) {
    how = record.cancelled ? "small call cancelled" : "small call closed with its session";
  }
  if (!result.from_peer && (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted)) {
    how = "small call broken with its session";
  }
  if (how != nullptr) ++result_.coverage[how];
}

void World::on_complete(uint64_t call_id, CallResult&& result) {
  judge(call_id, std::move(result));
  // By index: other completions and calls may have come meanwhile.
  if (Node& node = nodes_[calls_[call_id].from]; faulty_ && options_.fixed_loss < 0 && node.up()) meddle(node);
}

void World::judge(uint64_t call_id, CallResult&& result) {
  CallRecord& record = calls_[call_id];
  if (record.completed) violate("call ", call_id, " completed twice");
  record.completed = true;
  --open_calls_;
  last_completion_ns_ = now();
  cover_completion(record, result);
  record.claimed_not_executed = !result.may_have_executed;
  ++result_.outcomes[absl::StatusCodeToString(result.status.code())];
  if (now() > record.deadline_ns + kDeadlineSlack) {
    violate("call ", call_id, " completed ", (now() - record.deadline_ns) / kMicrosecond, " us after its deadline");
  }
  if (!result.status.ok()) {
    last_error_ = result.status.ToString();
    const bool asked_for = record.method == kRefuse || record.method == kDropToken;
    if (result.from_peer && !asked_for && result.status.code() == absl::StatusCode::kInternal) {
      // A node that crashed dropped its tokens; anything else is a lost duty.
      if (crash_chance_ == 0) violate("call ", call_id, " got ", std::string(result.status.message()));
    }
    return;
  }
  record.ok = true;
  ++result_.ok;
  if (record.one_way) return;
  if (!result.from_peer) violate("OK that did not come from the peer");
  if (result.response.size() != record.response_bytes || !matches_pattern(call_id + 1, result.response.bytes())) {
    violate("response ", call_id, " arrived damaged: ", result.response.size(), " of ", record.response_bytes,
            " bytes");
  }
  result_.bytes_verified += result.response.size();
  if (rng_.chance(0.2) && nodes_[record.from].up()) {
    nodes_[record.from].kept.push_back(
        {now() + static_cast<DurationNs>(rng_.below(5 * kMillisecond)), call_id + 1, std::move(result.response)});
  }
}

}  // namespace skua::rpc::sim
