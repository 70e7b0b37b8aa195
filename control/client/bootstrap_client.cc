#include "control/client/bootstrap_client.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/channel.h"
#include "control/client/control_client_limits.h"
#include "control/proto/bootstrap.grpc.pb.h"
#include "control/proto/convert.h"
#include "control/security/plaintext_check.h"
#include "rpc/base/clock.h"

namespace skua::control {
namespace {

/// One call in flight: everything that must live until its callback.
//
// gRPC runs callbacks on threads that belong to a queue which the last channel takes with it when it goes. A callback
// that destroys the last channel would join its own thread. The context holds its channel, so a call is destroyed
// before it counts as finished: until then the client, and with it the channel, is there.
template <typename Request, typename Reply>
struct Call {
  grpc::ClientContext context;
  Request request;
  Reply reply;
  std::shared_ptr<v1::Bootstrap::Stub> stub;
  ChannelKind kind = ChannelKind::kTls;
};

}  // namespace

class BootstrapClient::Impl {
 public:
  explicit Impl(CredentialsPtr credentials) : credentials_(std::move(credentials)) {}
  ~Impl() {
    std::unique_lock lock(mutex_);
    closing_ = true;
    for (grpc::ClientContext* context : cancellable_) context->TryCancel();
    all_done_.wait(lock, [&] { return unfinished_ == 0; });
    lock.unlock();
    plaintext_check_.stop();
  }

  absl::Status describe(const std::string& address, const std::string& cluster_id, DurationNs timeout_ns,
                        DescribeFn done) {
    auto call = std::make_shared<Call<v1::DescribeRequest, v1::DescribeReply>>();
    call->request.set_cluster_id(cluster_id);
    *call->request.mutable_versions() = to_proto(kProtocolVersions);
    if (auto status = admit(address, timeout_ns, *call); !status.ok()) return status;
    call->stub->async()->Describe(&call->context, &call->request, &call->reply,
                                  [this, call, address, done = std::move(done)](const grpc::Status& status) mutable {
                                    const absl::Status ended = how_ended(*call, status, address);
                                    auto result =
                                        ended.ok() ? absl::StatusOr<NodeDescription>(from_proto(call->reply)) : ended;
                                    note_outcome(address, call->kind, status);
                                    finish(std::move(call), [&] { done(std::move(result)); });
                                  });
    return absl::OkStatus();
  }

  absl::Status open_session(const OpenSessionRequest& wanted, DurationNs timeout_ns, OpenSessionFn done) {
    auto call = std::make_shared<Call<v1::OpenSessionRequest, v1::OpenSessionReply>>();
    call->request.set_cluster_id(wanted.cluster_id);
    call->request.set_node_uuid(wanted.node_uuid);
    call->request.set_incarnation(wanted.incarnation);
    *call->request.mutable_versions() = to_proto(kProtocolVersions);
    call->request.set_worker(wanted.worker);
    *call->request.mutable_transport() = to_proto(wanted.transport);
    call->request.set_offer(wanted.offer);
    if (auto status = admit(wanted.grpc_address, timeout_ns, *call); !status.ok()) return status;
    call->stub->async()->OpenSession(
        &call->context, &call->request, &call->reply,
        [this, call, address = wanted.grpc_address, done = std::move(done)](const grpc::Status& status) mutable {
          const absl::Status ended = how_ended(*call, status, address);
          auto result = ended.ok() ? absl::StatusOr<OpenSessionAnswer>(OpenSessionAnswer{
                                         call->reply.node_uuid(), call->reply.incarnation(), call->reply.answer()})
                                   : ended;
          note_outcome(address, call->kind, status);
          finish(std::move(call), [&] { done(std::move(result)); });
        });
    return absl::OkStatus();
  }

 private:
  /// A channel to a node.
  struct Way {
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<v1::Bootstrap::Stub> stub;
  };
  struct Node {
    Way tls;
    Way plaintext;  // made when it is needed
    ChannelKind kind = ChannelKind::kTls;
    TimeNs plaintext_until_ns = 0;
    bool is_lost = false;   // the last call did not reach it
    bool is_asked = false;  // whether it speaks TLS

    [[nodiscard]] Way& way() { return kind == ChannelKind::kTls ? tls : plaintext; }
  };

  /// A node's answer counts only if its certificate is that of the node that it says it is.
  template <typename Call>
  static absl::Status how_ended(const Call& call, const grpc::Status& status, const std::string& address) {
    const std::string who = absl::StrCat("node at ", address);
    if (!status.ok()) return from_grpc(status, who);
    const absl::Status is_itself = check_node_is(*call.context.auth_context(), call.reply.node_uuid());
    // As when another node stands there without certificates: a newer map says where the node is.
    return is_itself.ok() ? is_itself : absl::FailedPreconditionError(absl::StrCat(who, ": ", is_itself.message()));
  }

  template <typename Call>
  absl::Status admit(const std::string& address, DurationNs timeout_ns, Call& call) {
    set_timeout(call.context, timeout_ns);
    std::lock_guard lock(mutex_);
    if (closing_) return absl::CancelledError("the bootstrap client is closing");
    if (unfinished_ >= kBootstrapCallsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kBootstrapCallsMax, " bootstrap calls are open, which is the limit. Try again later"));
    }
    Node& node = node_for(address);
    call.stub = node.way().stub;
    call.kind = node.kind;
    cancellable_.insert(&call.context);
    ++unfinished_;
    return absl::OkStatus();
  }

  [[nodiscard]] Way connect(const std::string& address, ChannelKind kind) const {
    const std::shared_ptr<grpc::Channel> channel = make_channel(address, credentials_, Role::kNode, kind);
    return {channel, v1::Bootstrap::NewStub(channel)};
  }

  Node& node_for(const std::string& address) {
    auto found = nodes_.find(address);
    if (found == nodes_.end()) {
      // Nodes come and go; a connection that is dropped here is made again when it is needed.
      if (nodes_.size() >= kBootstrapChannelsMax) nodes_.erase(nodes_.begin());
      found = nodes_.emplace(address, Node{.tls = connect(address, ChannelKind::kTls), .plaintext = {}}).first;
    }
    Node& node = found->second;
    if (node.kind == ChannelKind::kPlaintext && clock_.now_ns() >= node.plaintext_until_ns) {
      node.kind = ChannelKind::kTls;
    }
    if (std::exchange(node.is_lost, false)) end_pause(*node.way().channel);
    return node;
  }

  /// `kind`: of the call's channel.
  void note_outcome(const std::string& address, ChannelKind kind, const grpc::Status& status) {
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return;
    std::unique_lock lock(mutex_);
    const auto found = nodes_.find(address);
    if (found == nodes_.end()) return;
    Node& node = found->second;
    node.is_lost = true;
    // A later call is made in the other way: callers repeat what was UNAVAILABLE. Several calls may fail together.
    if (!takes_plaintext(credentials_) || node.kind != kind) return;
    // It was reached, and the answer is its own.
    if (node.way().channel->GetState(false) == GRPC_CHANNEL_READY) return;
    if (kind == ChannelKind::kPlaintext) {
      node.kind = ChannelKind::kTls;
      return;
    }
    if (std::exchange(node.is_asked, true)) return;
    lock.unlock();
    plaintext_check_.ask(address, [this, address](bool speaks_no_tls) { note_check(address, speaks_no_tls); });
  }

  void note_check(const std::string& address, bool speaks_no_tls) {
    std::lock_guard lock(mutex_);
    const auto found = nodes_.find(address);
    if (found == nodes_.end()) return;
    Node& node = found->second;
    node.is_asked = false;
    if (!speaks_no_tls) return;
    node.kind = ChannelKind::kPlaintext;
    node.plaintext_until_ns = clock_.now_ns() + kPlaintextKeptNs;
    if (node.plaintext.channel == nullptr) node.plaintext = connect(address, node.kind);
  }

  template <typename Call, typename Report>
  void finish(std::shared_ptr<Call> call, const Report& report) {
    {
      std::lock_guard lock(mutex_);
      cancellable_.erase(&call->context);
    }
    call.reset();
    report();
    std::lock_guard lock(mutex_);
    if (--unfinished_ == 0) all_done_.notify_all();
  }

  const CredentialsPtr credentials_;
  const SteadyClock clock_{};
  std::mutex mutex_;
  std::condition_variable all_done_;
  // Protected by mutex_.
  std::map<std::string, Node> nodes_;  // by address
  std::set<grpc::ClientContext*> cancellable_;
  size_t unfinished_ = 0;
  bool closing_ = false;

  PlaintextCheck plaintext_check_;
};

BootstrapClient::BootstrapClient(CredentialsPtr credentials) : impl_(std::make_unique<Impl>(std::move(credentials))) {}
BootstrapClient::~BootstrapClient() = default;

absl::Status BootstrapClient::describe_async(const std::string& grpc_address, const std::string& cluster_id,
                                             DurationNs timeout_ns, DescribeFn done) {
  return impl_->describe(grpc_address, cluster_id, timeout_ns, std::move(done));
}

absl::Status BootstrapClient::open_session_async(const OpenSessionRequest& request, DurationNs timeout_ns,
                                                 OpenSessionFn done) {
  return impl_->open_session(request, timeout_ns, std::move(done));
}

absl::StatusOr<NodeDescription> BootstrapClient::describe(const std::string& grpc_address,
                                                          const std::string& cluster_id, DurationNs timeout_ns) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<NodeDescription>>>();
  auto result = promise->get_future();
  absl::Status status = describe_async(grpc_address, cluster_id, timeout_ns,
                                       [promise](auto reply) { promise->set_value(std::move(reply)); });
  if (!status.ok()) return status;
  return result.get();
}

absl::StatusOr<OpenSessionAnswer> BootstrapClient::open_session(const OpenSessionRequest& request,
                                                                DurationNs timeout_ns) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<OpenSessionAnswer>>>();
  auto result = promise->get_future();
  absl::Status status =
      open_session_async(request, timeout_ns, [promise](auto reply) { promise->set_value(std::move(reply)); });
  if (!status.ok()) return status;
  return result.get();
}

}  // namespace skua::control
