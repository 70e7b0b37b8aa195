#include "control/store/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace skua::control {
namespace {

using std::chrono::nanoseconds;
using std::chrono::system_clock;

/// All of a cluster's metadata in one answer, or a transaction with all that it may hold.
constexpr int kMessageMax = 256 << 20;
constexpr DurationNs kConnectMax = kSecond;
constexpr DurationNs kPause = 50 * kMillisecond;

std::shared_ptr<grpc::Channel> make_etcd_channel(const std::string& address,
                                                 const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);  // also the time-out of a connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // etcd closes connections that ping more often than every 5 s, or without a call for long.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMessageMax);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

/// Another member, or the same a little later, may answer.
bool is_passing(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kInternal;
}

bool says(const grpc::Status& status, std::string_view words) {
  return status.error_message().find(words) != std::string::npos;
}

}  // namespace

void ask_for_leader(grpc::ClientContext& context) {
  context.AddMetadata("hasleader", "true");
}

EtcdClient::EtcdClient(EtcdAddress address, DurationNs call_timeout_ns, EtcdTlsFiles tls)
    : address_(std::move(address)), call_timeout_ns_(call_timeout_ns), tls_(std::move(tls)) {
  const auto credentials = address_.tls ? etcd_credentials(tls_) : grpc::InsecureChannelCredentials();
  for (const std::string& endpoint : address_.endpoints) {
    auto channel = make_etcd_channel(endpoint, credentials);
    auto kv = etcdserverpb::KV::NewStub(channel);
    auto watch = etcdserverpb::Watch::NewStub(channel);
    auto lease = etcdserverpb::Lease::NewStub(channel);
    members_.push_back(std::make_unique<Member>(
        Member{endpoint, std::move(channel), std::move(kv), std::move(watch), std::move(lease)}));
  }
}

void EtcdClient::move_on(const Member& member) {
  size_t in_use = in_use_.load();
  // Somebody else may have moved on already.
  if (members_[in_use % members_.size()].get() == &member) in_use_.compare_exchange_strong(in_use, in_use + 1);
}

EtcdClient::Member* EtcdClient::connected_member(WallTime deadline) {
  for (size_t tried = 0;; ++tried) {
    Member& candidate = member();
    const auto connect_until = std::min(deadline, system_clock::now() + nanoseconds(kConnectMax));
    grpc_connectivity_state state = candidate.channel->GetState(true);
    // The first time round a member that refuses is passed over at once; then they are waited for, which is also what
    // makes gRPC try again.
    while (state != GRPC_CHANNEL_READY && (state != GRPC_CHANNEL_TRANSIENT_FAILURE || tried >= members_.size())) {
      if (!candidate.channel->WaitForStateChange(state, connect_until)) break;
      state = candidate.channel->GetState(true);
    }
    if (state == GRPC_CHANNEL_READY) return &candidate;
    if (system_clock::now() >= deadline) return nullptr;
    move_on(candidate);
  }
}

absl::Status EtcdClient::unreachable() {
  const std::string who = absl::StrCat("etcd at ", absl::StrJoin(address_.endpoints, ", "), " cannot be reached");
  if (address_.tls) {
    // Only a call tells why the connection cannot be made.
    grpc::ClientContext context;
    context.set_deadline(system_clock::now() + nanoseconds(kConnectMax));
    etcdserverpb::RangeResponse response;
    const grpc::Status status = member().kv->Range(&context, etcdserverpb::RangeRequest(), &response);
    return absl::UnavailableError(absl::StrCat(who, ": ", status.error_message()));
  }
  return absl::UnavailableError(
      absl::StrCat(who, ". Start it there, or give its addresses with --metadata etcd://HOST:PORT,HOST:PORT/PREFIX"));
}

absl::Status EtcdClient::translate(const grpc::Status& status, const Member& member) const {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::string what = absl::StrCat("etcd at ", member.address, ": ", status.error_message());
  if (says(status, "too many operations")) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ". Start each etcd member with --max-txn-ops=", kEtcdTransactionOps));
  }
  if (says(status, "request is too large") || says(status, "message larger than max")) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ". Start each etcd member with --max-request-bytes=", kEtcdRequestBytes));
  }
  if (says(status, "database space exceeded")) {
    return {code, absl::StrCat(what,
                               ". Compact and defragment etcd, raise its --quota-backend-bytes, then clear the "
                               "alarm with etcdctl alarm disarm")};
  }
  if (says(status, "no leader")) {
    return {code, absl::StrCat(what, ". More than half of its members must run and reach each other")};
  }
  if (says(status, "user name is empty") || code == absl::StatusCode::kPermissionDenied) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, ". Skua does not log in to etcd: give it an etcd without authentication"));
  }
  return {code, what};
}

template <typename Call>
absl::Status EtcdClient::call_once(WallTime deadline, DurationNs attempt_ns, const Call& call) {
  Member* const to = connected_member(deadline);
  if (to == nullptr) return unreachable();
  grpc::ClientContext context;
  ask_for_leader(context);
  context.set_deadline(std::min(deadline, system_clock::now() + nanoseconds(attempt_ns)));
  const absl::Status status = translate(call(*to, context), *to);
  if (is_passing(status)) move_on(*to);
  return status;
}

absl::StatusOr<etcdserverpb::RangeResponse> EtcdClient::range(const etcdserverpb::RangeRequest& request,
                                                              DurationNs timeout_ns) {
  const DurationNs whole_ns = timeout_ns == 0 ? call_timeout_ns_ : timeout_ns;
  const WallTime deadline = system_clock::now() + nanoseconds(whole_ns);
  // With several members one that hangs must not use up all the time.
  const DurationNs attempt_ns = members_.size() == 1 ? whole_ns : whole_ns / 2;
  while (true) {
    etcdserverpb::RangeResponse response;
    absl::Status status = call_once(deadline, attempt_ns, [&](Member& to, grpc::ClientContext& context) {
      return to.kv->Range(&context, request, &response);
    });
    if (status.ok()) return response;
    if (!is_passing(status) || system_clock::now() + nanoseconds(kPause) >= deadline) return status;
    std::this_thread::sleep_for(nanoseconds(kPause));
  }
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::transact(const etcdserverpb::TxnRequest& request) {
  etcdserverpb::TxnResponse response;
  absl::Status status =
      call_once(system_clock::now() + nanoseconds(call_timeout_ns_), call_timeout_ns_,
                [&](Member& to, grpc::ClientContext& context) { return to.kv->Txn(&context, request, &response); });
  if (!status.ok()) return status;
  return response;
}

absl::Status EtcdClient::compact(int64_t revision) {
  etcdserverpb::CompactionRequest request;
  request.set_revision(revision);
  etcdserverpb::CompactionResponse response;
  return call_once(
      system_clock::now() + nanoseconds(call_timeout_ns_), call_timeout_ns_,
      [&](Member& to, grpc::ClientContext& context) { return to.kv->Compact(&context, request, &response); });
}

absl::StatusOr<int64_t> EtcdClient::grant_lease(DurationNs ttl_ns) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl((ttl_ns + kSecond - 1) / kSecond);
  etcdserverpb::LeaseGrantResponse response;
  absl::Status status = call_once(
      system_clock::now() + nanoseconds(call_timeout_ns_), call_timeout_ns_,
      [&](Member& to, grpc::ClientContext& context) { return to.lease->LeaseGrant(&context, request, &response); });
  if (!status.ok()) return status;
  if (!response.error().empty()) return absl::UnavailableError(absl::StrCat("etcd: ", response.error()));
  return response.id();
}

absl::Status EtcdClient::keep_lease(int64_t id) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(id);
  etcdserverpb::LeaseKeepAliveResponse response;
  absl::Status status =
      call_once(system_clock::now() + nanoseconds(call_timeout_ns_), call_timeout_ns_,
                [&](Member& to, grpc::ClientContext& context) {
                  const auto stream = to.lease->LeaseKeepAlive(&context);
                  const bool answered = stream->Write(request) && stream->WritesDone() && stream->Read(&response);
                  const grpc::Status ended = stream->Finish();
                  return answered || !ended.ok() ? ended : grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer");
                });
  if (!status.ok()) return status;
  if (response.ttl() <= 0) return absl::NotFoundError(absl::StrCat("etcd has no lease ", id, " any more"));
  return absl::OkStatus();
}

absl::Status EtcdClient::revoke_lease(int64_t id) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(id);
  etcdserverpb::LeaseRevokeResponse response;
  return call_once(
      system_clock::now() + nanoseconds(call_timeout_ns_), call_timeout_ns_,
      [&](Member& to, grpc::ClientContext& context) { return to.lease->LeaseRevoke(&context, request, &response); });
}

bool is_compacted(const absl::Status& status) {
  return status.code() == absl::StatusCode::kOutOfRange &&
         std::string(status.message()).find("compacted") != std::string::npos;
}

}  // namespace skua::control
