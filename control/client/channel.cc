#include "control/client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_split.h"
#include "control/client/control_client_limits.h"
#include "control/proto/redirect.h"
#include "control/security/first_words.h"

namespace skua::control {

std::shared_ptr<grpc::Channel> make_channel(const std::string& address, const CredentialsPtr& credentials,
                                            Roles servers, ChannelKind kind) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);  // also the time-out of a connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kReceivedMessageMax);
  return grpc::CreateCustomChannel(
      address, channel_credentials(kind == ChannelKind::kTls ? credentials : nullptr, servers), arguments);
}

void end_pause(grpc::Channel& channel) {
  grpc::experimental::ChannelResetConnectionBackoff(&channel);
}

void set_timeout(grpc::ClientContext& context, DurationNs timeout_ns) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout_ns));
}

ControlPeers::ControlPeers(const std::string& addresses, const CredentialsPtr& credentials, bool tls_only) {
  const auto add = [&](const std::string& address) {
    peers_.push_back({address, make_channel(address, credentials, Role::kControl)});
    if (tls_only || !takes_plaintext(credentials)) return;
    peers_.push_back({address, make_channel(address, credentials, Role::kControl, ChannelKind::kPlaintext),
                      ChannelKind::kPlaintext});
  };
  size_t count = 0;
  for (const auto& part : absl::StrSplit(addresses, ',')) {
    const std::string address(part);
    if (address.empty()) continue;
    add(address);
    ++count;
  }
  // An empty address is refused by whoever connects to it.
  if (peers_.empty()) add(addresses);
  addresses_ = std::max<size_t>(count, 1);
}

ControlPeers::Outcome ControlPeers::learn(const Peer& asked, const grpc::Status& status,
                                          const grpc::ClientContext& context) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED: break;
    default: return Outcome::kAnswered;
  }
  if (is_leaders_answer(context)) return Outcome::kAnswered;
  const auto leader = redirected_to(context);
  if (!leader) {
    end_pause(*asked.channel);
    move_on(asked);
    return Outcome::kLost;
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    // No answer sends us on without TLS: next() alone does, after a look.
    if (peers_[i].kind == ChannelKind::kPlaintext) continue;
    if (peers_[i].address != *leader || *leader == asked.address) continue;
    chosen_.store(i);
    return Outcome::kRedirected;
  }
  // Somebody whom we cannot ask.
  if (addresses_ == 1 && !leader->empty()) return Outcome::kAnswered;
  move_on(asked);
  return Outcome::kNobodyLeads;
}

ControlPeers::Connected ControlPeers::connect(const Peer& asked, DurationNs timeout_ns) {
  const auto deadline = std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout_ns);
  grpc_connectivity_state state = asked.channel->GetState(true);
  while (state != GRPC_CHANNEL_READY && asked.channel->WaitForStateChange(state, deadline)) {
    state = asked.channel->GetState(true);
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) break;
  }
  if (state == GRPC_CHANNEL_READY) return Connected::kYes;
  end_pause(*asked.channel);
  move_on(asked);
  return state == GRPC_CHANNEL_TRANSIENT_FAILURE ? Connected::kRefused : Connected::kNotYet;
}

void ControlPeers::recover(const Peer& peer, const std::function<bool()>& goes_on) {
  constexpr auto kLimit = std::chrono::milliseconds(500);
  constexpr auto kSlice = std::chrono::milliseconds(20);
  const auto deadline = std::chrono::system_clock::now() + kLimit;
  grpc_connectivity_state state = peer.channel->GetState(false);
  if (state != GRPC_CHANNEL_TRANSIENT_FAILURE) return;  // a call waits for the connection itself
  while (state != GRPC_CHANNEL_READY && goes_on()) {
    const auto now = std::chrono::system_clock::now();
    if (now >= deadline) return;
    peer.channel->WaitForStateChange(state, std::min(deadline, now + kSlice));
    state = peer.channel->GetState(true);
  }
}

void ControlPeers::move_on(const Peer& from) {
  size_t chosen = chosen_.load();
  // Somebody else may have moved on already.
  if (&peers_[chosen] == &from) chosen_.compare_exchange_strong(chosen, next(chosen));
}

size_t ControlPeers::next(size_t chosen) const {
  const size_t next = (chosen + 1) % peers_.size();
  // A process that is away for a moment is not a reason to go on without TLS.
  const bool is_passed_over = peers_[next].kind == ChannelKind::kPlaintext && !speaks_no_tls(peers_[next].address);
  return is_passed_over ? (next + 1) % peers_.size() : next;
}

}  // namespace skua::control
