#include "tests/sim/script_world.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc::sim {
namespace {

constexpr uint32_t kLanes = 2;
constexpr DurationNs kScriptLasts = 300 * kMillisecond;
constexpr DurationNs kForLong = 30 * kSecond;
constexpr MethodId kDo = 1;

/// What becomes of a call.
enum class Fate : uint8_t {
  kEcho,
  kLater,      // answered after a while
  kError,      // answered with an error
  kDropped,    // its handler drops the token
  kTimedOut,   // its handler waits longer than the caller does
  kClosed,     // its handler waits until the caller closes the session
  kCancelled,  // by its caller, at once
  kOneWay,
};

struct ScriptCall {
  TimeNs at_ns = 0;
  uint32_t from = 0;
  std::pair<uint32_t, uint32_t> lane;  // to a node, over one of the sessions there
  Fate fate = Fate::kEcho;
  DurationNs later_ns = 0;
  uint32_t request_bytes = 0;
  uint32_t response_bytes = 0;
  bool as_body = false;
};

uint32_t any_size(Rng& rng) {
  const uint64_t dice = rng.below(20);
  if (dice == 0) return static_cast<uint32_t>(rng.below(60'000));
  if (dice == 1) return static_cast<uint32_t>(rng.between(4080, 4110));
  if (dice == 2) return static_cast<uint32_t>(rng.between(980, 1040));
  return static_cast<uint32_t>(rng.below(300));
}

std::vector<ScriptCall> write_script(const ScriptOptions& options) {
  static constexpr std::array kFates = {Fate::kError,  Fate::kDropped,   Fate::kTimedOut,
                                        Fate::kClosed, Fate::kCancelled, Fate::kOneWay};
  Rng rng(options.seed);
  std::vector<ScriptCall> script(options.call_count);
  TimeNs at_ns = 0;
  for (ScriptCall& call : script) {
    if (rng.chance(0.3))
      at_ns += static_cast<DurationNs>(rng.below(300)) * kMicrosecond;  // else at once: in one bundle
    call.at_ns = at_ns;
    call.from = static_cast<uint32_t>(rng.below(kScriptNodes));
    call.lane = {static_cast<uint32_t>((call.from + rng.between(1, kScriptNodes - 1)) % kScriptNodes),
                 static_cast<uint32_t>(rng.below(kLanes))};
    call.fate = rng.chance(0.5) ? Fate::kEcho : rng.chance(0.5) ? Fate::kLater : kFates[rng.below(kFates.size())];
    call.later_ns = static_cast<DurationNs>(rng.below(2000)) * kMicrosecond;
    call.request_bytes = 4 + any_size(rng);
    call.response_bytes = any_size(rng);
    call.as_body = rng.chance(0.3);
  }
  return script;
}

std::string filled(uint64_t seed, size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(mix64(seed + i / 8) >> (8 * (i % 8)));
  return out;
}

class ScriptWorld {
 public:
  explicit ScriptWorld(const ScriptOptions& options)
      : options_(options), script_(write_script(options)), network_(options.seed) {
    result_.outcomes.resize(script_.size());
    network_.set_watch([this](uint32_t, uint32_t, std::vector<std::byte>& packet) { watch(packet); });
    for (uint32_t i = 0; i < kScriptNodes; ++i) start(i);
  }
  ~ScriptWorld() {
    held_.clear();
    for (Node& node : nodes_) node.endpoint.reset();
  }

  ScriptResult run() {
    const TimeNs begun = network_.now_ns();
    for (uint32_t id = 0; id < script_.size(); ++id) {
      run_until(begun + script_[id].at_ns);
      call(id);
    }
    run_until(begun + kScriptLasts);
    for (Node& node : nodes_) {
      for (const auto& [lane, session] : node.sessions) node.endpoint->close(session);
    }
    run_until(network_.now_ns() + kScriptLasts);
    return std::move(result_);
  }

 private:
  struct Node {
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<Endpoint> endpoint;
    std::map<std::pair<uint32_t, uint32_t>, SessionId> sessions;
  };
  struct Held {
    TimeNs until_ns = kTimeNever;
    uint32_t id = 0;
    ReplyToken reply;
  };

  void start(uint32_t index) {
    Node& node = nodes_[index];
    EndpointIdentity identity;
    identity.uuid.bytes[0] = static_cast<uint8_t>(index + 1);
    identity.incarnation = 1;
    node.transport = network_.attach(100 + index, identity, {});
    EndpointOptions options;
    options.simulation_seed = options_.seed * kScriptNodes + index + 1;
    options.bundles = (options_.bundles_at >> index & 1) != 0;
    node.endpoint = std::make_unique<Endpoint>(*node.transport, network_.clock(), options);
    node.endpoint->serve(kDo, [this, index](IncomingCall&& call) { handle(*nodes_[index].endpoint, std::move(call)); },
                         {.one_way = true});
  }

  void watch(ByteSpan packet) {
    BundleHead head;
    DropReason why;
    if (!is_bundle(packet.data())) {
      ++result_.packets;
      return;
    }
    SKUA_CHECK(open_bundle(packet, false, head, why), "a bundle is refused that nothing happened to");
    RecordReader reader(packet, head.records);
    RecordHead record;
    ByteSpan bytes;
    while (reader.next(record, bytes)) result_.records += record.kind <= RecordKind::kResponse ? 1 : 0;
  }

  void handle(Endpoint& endpoint, IncomingCall&& incoming) {
    SKUA_CHECK(incoming.request.size() >= 4, "a request without its number");
    const auto id = load_le<uint32_t>(incoming.request.bytes().data());
    const ScriptCall& call = script_.at(id);
    // A cancelled request may have left before.
    if (call.fate != Fate::kCancelled) ++result_.outcomes[id].handler_runs;
    const std::string sent = filled(id, call.request_bytes).substr(4);
    SKUA_CHECK(as_string_view(incoming.request.bytes().subspan(4)) == sent, "a request arrived damaged");
    switch (call.fate) {
      case Fate::kEcho: return answer(endpoint, incoming.reply, id);
      case Fate::kError: return incoming.reply.fail(absl::AlreadyExistsError(absl::StrCat("call ", id)));
      case Fate::kDropped:
      case Fate::kOneWay: return;
      case Fate::kLater: held_.push_back({network_.now_ns() + call.later_ns, id, std::move(incoming.reply)}); return;
      case Fate::kTimedOut:
      case Fate::kClosed:
      case Fate::kCancelled: held_.push_back({kTimeNever, id, std::move(incoming.reply)});
    }
  }

  void answer(Endpoint& endpoint, ReplyToken& reply, uint32_t id) {
    const std::string bytes = filled(id + 1000, script_[id].response_bytes);
    if (!script_[id].as_body && id % 2 == 0) return reply.reply(as_byte_span(bytes));
    MessagePtr message = endpoint.make_message();
    fill(*message, bytes, script_[id].as_body);
    reply.reply(std::move(message));
  }

  static void fill(Message& message, const std::string& bytes, bool as_body) {
    if (!as_body) return message.append_copy(as_byte_span(bytes));
    auto* body = new std::string(bytes);
    SKUA_CHECK(message.add_body(
                   as_byte_span(*body), [](void* it) { delete static_cast<std::string*>(it); }, body),
               "a message has room for a body");
  }

  void call(uint32_t id) {
    const ScriptCall& call = script_[id];
    Node& node = nodes_[call.from];
    if (!node.sessions.contains(call.lane)) {
      node.sessions[call.lane] = node.endpoint->connect(nodes_[call.lane.first].endpoint->local_descriptor()).value();
    }
    std::string bytes = filled(id, call.request_bytes);
    std::memcpy(bytes.data(), &id, sizeof id);
    MessagePtr request = node.endpoint->make_message();
    fill(*request, bytes, call.as_body);
    const DurationNs timeout_ns = call.fate == Fate::kTimedOut ? 50 * kMillisecond : kForLong;
    const absl::StatusOr<CallId> started = node.endpoint->call(
        node.sessions[call.lane], kDo, std::move(request),
        {.timeout_ns = timeout_ns, .one_way = call.fate == Fate::kOneWay}, [this, id](CallResult&& result) {
          ScriptOutcome& outcome = result_.outcomes[id];
          ++outcome.completions;
          outcome.code = result.status.code();
          outcome.bytes = as_string_view(result.response.bytes());
          if (result.from_peer) outcome.text = std::string(result.status.message());
        });
    SKUA_CHECK(started.ok(), "a scripted call is refused");
    if (call.fate == Fate::kCancelled) node.endpoint->cancel(*started);
  }

  void run_until(TimeNs until) {
    for (;;) {
      TimeNs next = network_.next_event_ns();
      for (const Node& node : nodes_) next = std::min(next, node.endpoint->next_timer_ns());
      for (const Held& held : held_) next = std::min(next, held.until_ns);
      if (next > until) break;
      network_.advance_to(std::max(next, network_.now_ns()));
      answer_held();
      for (Node& node : nodes_) node.endpoint->poll();
    }
    network_.advance_to(until);
  }

  void answer_held() {
    for (size_t i = 0; i < held_.size();) {
      if (held_[i].until_ns > network_.now_ns()) {
        ++i;
        continue;
      }
      Held held = std::move(held_[i]);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      answer(*nodes_[script_[held.id].lane.first].endpoint, held.reply, held.id);
    }
  }

  const ScriptOptions options_;
  const std::vector<ScriptCall> script_;
  SimNetwork network_;
  std::array<Node, kScriptNodes> nodes_;
  std::deque<Held> held_;
  ScriptResult result_;
};

}  // namespace

ScriptResult run_script(const ScriptOptions& options) {
  return ScriptWorld(options).run();
}

}  // namespace skua::rpc::sim
