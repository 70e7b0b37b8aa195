#include "control/client/node_agent.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/backoff.h"
#include "control/client/channel.h"
#include "control/client/node_yield.h"
#include "control/client/what_answers.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"
#include "rpc/base/check.h"

namespace skua::control {
namespace {

constexpr uint32_t kHeartbeatMsMin = 10;
constexpr uint32_t kHeartbeatMsMax = 60'000;

/// The same request can never succeed.
bool is_final(const absl::Status& status) {
  return status.code() == absl::StatusCode::kFailedPrecondition || status.code() == absl::StatusCode::kInvalidArgument;
}

}  // namespace

class NodeAgent::Impl {
 public:
  explicit Impl(NodeAgentOptions options)
      : options_(std::move(options)),
        peers_(options_.control_address, options_.credentials),
        cluster_id_(options_.cluster_id) {}

  void start() {
    SKUA_CHECK(!thread_.joinable(), "NodeAgent::start() may be called once");
    if (options_.on_registered) teller_ = std::thread([this] { tell_registrations(); });
    thread_ = std::thread([this] { run(); });
  }

  absl::StatusOr<Registration> wait_registered(DurationNs timeout_ns) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                      [&] { return registration_ || !refusal_.ok() || stopping_; });
    if (!refusal_.ok()) return refusal_;
    if (registration_) return *registration_;
    if (stopping_) return absl::CancelledError("the node is stopping");
    return absl::DeadlineExceededError(absl::StrCat("node ", options_.node.uuid, " could not register within ",
                                                    timeout_ns / kMillisecond,
                                                    " ms: ", std::string(trouble_.message())));
  }

  void set_applied_revision(uint64_t revision) {
    {
      std::lock_guard lock(mutex_);
      if (applied_revision_ == revision) return;
      applied_revision_ = revision;
      send_now_ = true;
    }
    changed_.notify_all();
  }

  void set_trouble(const std::string& trouble) {
    {
      std::lock_guard lock(mutex_);
      if (node_trouble_ == trouble) return;
      node_trouble_ = trouble;
      send_now_ = true;
    }
    changed_.notify_all();
  }

  void set_unserved(std::vector<ShardRef> unserved) {
    {
      std::lock_guard lock(mutex_);
      if (unserved_ == unserved) return;
      unserved_ = std::move(unserved);
      send_now_ = true;
    }
    changed_.notify_all();
  }

  void set_copies(std::vector<CopyReport> copies) {
    std::lock_guard lock(mutex_);
    copies_ = std::move(copies);
  }

  void set_findings(ReplicaReport findings) {
    findings.uuid = options_.node.uuid;
    findings.incarnation = options_.node.incarnation;
    findings.instance = options_.node.instance;
    auto request = std::make_shared<const v1::ReportReplicasRequest>(to_proto(findings));
    {
      std::lock_guard lock(mutex_);
      findings_ = std::move(request);
      have_findings_ = !findings.empty();
      send_now_ = true;
    }
    changed_.notify_all();
  }

  absl::StatusOr<size_t> yield(DurationNs limit_ns) {
    std::unique_lock lock(mutex_);
    yield_.begin();
    send_now_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                      [&] { return stopping_ || yield_.result() || !refusal_.ok(); });
    if (yield_.result()) return *yield_.result();
    if (stopping_) return absl::CancelledError("the node is stopping");
    return refusal_.ok() ? yield_.out_of_time(limit_ns) : refusal_;
  }

  absl::Status leave(bool force) {
    grpc::ClientContext context;
    set_timeout(context, options_.call_timeout_ns);
    v1::LeaveRequest request;
    request.set_uuid(options_.node.uuid);
    request.set_instance(options_.node.instance);
    request.set_force(force);
    v1::LeaveReply reply;
    const auto stub = v1::Membership::NewStub(peers_.peer().channel);
    auto status = from_grpc(stub->Leave(&context, request, &reply), control());
    if (status.ok()) end(false);
    return status;
  }

  void stop() { end(true); }

 private:
  void end(bool say_goodbye) {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
    }
    changed_.notify_all();
    // Both leave() and stop() may come here, at the same time.
    std::lock_guard joining(join_mutex_);
    if (!thread_.joinable()) return;
    thread_.join();
    if (teller_.joinable()) teller_.join();
    if (say_goodbye && registered_) goodbye();
  }

  void run() {
    Backoff backoff({}, std::random_device{}());
    std::optional<std::chrono::steady_clock::time_point> duplicate_since;
    size_t redirects = 0;
    while (!stopping()) {
      absl::Status status = registered_ ? heartbeat() : register_node();
      if (stopping()) return;
      // Two that name each other must not keep us from waiting.
      if (outcome_ == ControlPeers::Outcome::kRedirected && ++redirects <= peers_.addresses()) continue;
      redirects = 0;
      if (status.code() == absl::StatusCode::kNotFound && registered_) {
        registered_ = false;
        continue;
      }
      note_failure_of_yield(status);
      if (refused_for_good(status, duplicate_since)) return;
      note_trouble(status);
      if (status.ok()) {
        backoff.reset();
        wait(yields() ? std::min(heartbeat_interval_ns_, options_.yield_interval_ns) : heartbeat_interval_ns_);
      } else {
        // A busy control plane says so at once: a node that it knows goes on as before, or it would look silent.
        const bool is_busy = registered_ && status.code() == absl::StatusCode::kResourceExhausted;
        const DurationNs pause = is_busy ? heartbeat_interval_ns_ : backoff.next();
        wait(registered_ ? std::max(pause, heartbeat_interval_ns_) : pause);
      }
    }
  }

  absl::Status register_node() {
    v1::RegisterRequest request;
    request.set_cluster_id(cluster_id_);
    *request.mutable_node() = to_proto(options_.node);
    request.set_secret(options_.node.secret);
    request.set_applied_revision(take_applied_revision());
    v1::RegisterReply reply;
    absl::Status status = call(&v1::Membership::Stub::Register, request, reply);
    if (!status.ok()) return status;
    registered_ = true;
    {
      // Registering says nothing of trouble: the first heartbeat does.
      std::lock_guard lock(mutex_);
      send_now_ |= !node_trouble_.empty() || !unserved_.empty();
    }
    cluster_id_ = reply.cluster_id();
    heartbeat_interval_ns_ = std::clamp(reply.heartbeat_interval_ms(), kHeartbeatMsMin, kHeartbeatMsMax) * kMillisecond;
    const Registration registration{reply.cluster_id(), reply.cluster_name(), reply.version(), reply.map_revision()};
    {
      std::lock_guard lock(mutex_);
      registration_ = registration;
      untold_ = registration;
    }
    changed_.notify_all();
    return absl::OkStatus();
  }

  /// What a node does with its first registration may take long; without heartbeats it would be suspected meanwhile.
  void tell_registrations() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || untold_; });
      if (stopping_) return;
      const Registration registration = *std::exchange(untold_, std::nullopt);
      lock.unlock();
      options_.on_registered(registration);
      lock.lock();
      told_ = true;
    }
  }

  absl::Status heartbeat() {
    v1::HeartbeatRequest request = heartbeat_request();
    *request.mutable_security() = to_proto(options_.security);
    request.set_applied_revision(take_applied_revision());
    {
      std::lock_guard lock(mutex_);
      request.set_trouble(node_trouble_);
      for (const CopyReport& copy : copies_) *request.add_copies() = to_proto(copy);
      for (const ShardRef& shard : unserved_) *request.add_unserved() = to_proto(shard);
      request.set_yielding(yield_.has_begun());
    }
    v1::HeartbeatReply reply;
    // Findings first: somebody may be waiting for another primary.
    if (auto status = report_findings(); !status.ok()) return status;
    request.set_unix_ms(unix_ms());
    absl::Status status = call(&v1::Membership::Stub::Heartbeat, request, reply);
    if (status.ok() && request.yielding()) note_yield(reply);
    if (status.ok() && options_.on_map_revision && has_told()) options_.on_map_revision(reply.map_revision());
    if (status.ok() && reply.unix_ms() > 0) note_clock((request.unix_ms() + unix_ms()) / 2 - reply.unix_ms());
    return status;
  }

  void note_yield(const v1::HeartbeatReply& reply) {
    const std::lock_guard lock(mutex_);
    yield_.on_reply(reply.yield_left(), reply.yield_lags());
    changed_.notify_all();
  }

  void note_failure_of_yield(const absl::Status& status) {
    // A busy control process answers in a moment.
    if (status.ok() || status.code() == absl::StatusCode::kResourceExhausted) return;
    const std::lock_guard lock(mutex_);
    yield_.on_failure(status, peers_.addresses());
    changed_.notify_all();
  }

  bool yields() const {
    const std::lock_guard lock(mutex_);
    return yield_.is_under_way();
  }

  static int64_t unix_ms() {
    using std::chrono::milliseconds;
    return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  void note_clock(int64_t ahead_ms) {
    constexpr int64_t kSaneMs = INT64_MAX / kMillisecond;
    const std::string trouble = clock_trouble(std::clamp(ahead_ms, -kSaneMs, kSaneMs) * kMillisecond);
    // The number may change a little each time.
    if (std::exchange(clock_is_off_, !trouble.empty()) == !trouble.empty()) return;
    if (options_.on_clock) options_.on_clock(trouble);
  }

  absl::Status report_findings() {
    std::shared_ptr<const v1::ReportReplicasRequest> findings;
    bool any = false;
    {
      std::lock_guard lock(mutex_);
      findings = findings_;
      any = have_findings_;
    }
    // That there are none any more is said until it was heard: else what was said before counts until it is too old.
    if (!any && !findings_stand_) return absl::OkStatus();
    findings_stand_ = true;
    v1::ReportReplicasReply reply;
    const absl::Status status = call(&v1::Membership::Stub::ReportReplicas, *findings, reply);
    if (status.ok()) findings_stand_ = any;
    // A control plane that cannot act on findings must still hear that the node is alive.
    const bool identity = status.code() == absl::StatusCode::kNotFound ||
                          status.code() == absl::StatusCode::kFailedPrecondition ||
                          status.code() == absl::StatusCode::kCancelled;
    return identity ? status : absl::OkStatus();
  }

  void goodbye() {
    grpc::ClientContext context;
    set_timeout(context, options_.goodbye_timeout_ns);
    v1::HeartbeatRequest request = heartbeat_request();
    request.set_stopping(true);
    v1::HeartbeatReply reply;
    // If it does not arrive, silence says the same a little later.
    (void)v1::Membership::NewStub(peers_.peer().channel)->Heartbeat(&context, request, &reply);
  }

  v1::HeartbeatRequest heartbeat_request() const {
    v1::HeartbeatRequest request;
    request.set_uuid(options_.node.uuid);
    request.set_incarnation(options_.node.incarnation);
    request.set_instance(options_.node.instance);
    return request;
  }

  /// One call that stop() can cut short.
  template <typename Request, typename Reply>
  absl::Status call(grpc::Status (v1::Membership::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply& reply) {
    const ControlPeers::Peer& peer = peers_.peer();
    ControlPeers::recover(peer, [this] { return !stopping(); });
    grpc::ClientContext context;
    set_timeout(context, options_.call_timeout_ns);
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return absl::CancelledError("the node is stopping");
      context_ = &context;
    }
    asked_ = peer.address;
    const auto stub = v1::Membership::NewStub(peer.channel);
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    {
      std::lock_guard lock(mutex_);
      context_ = nullptr;
    }
    outcome_ = peers_.learn(peer, status, context);
    return from_grpc(status, control());
  }

  /// Tells the node to stop if `status` says so. Before the first registration every final refusal
  /// does. Later only being replaced does: a control plane that lost its data must not take down
  /// nodes that serve.
  bool refused_for_good(const absl::Status& status,
                        std::optional<std::chrono::steady_clock::time_point>& duplicate_since) {
    const auto now = std::chrono::steady_clock::now();
    bool final = is_final(status) && (!ever_registered() || registered_);
    if (status.code() == absl::StatusCode::kAlreadyExists) {
      if (!duplicate_since) duplicate_since = now;
      final = now - *duplicate_since >= std::chrono::nanoseconds(options_.duplicate_grace_ns);
    } else {
      duplicate_since.reset();
    }
    if (!final) return false;
    {
      std::lock_guard lock(mutex_);
      refusal_ = status;
    }
    registered_ = false;
    changed_.notify_all();
    if (options_.on_refused) options_.on_refused(status);
    return true;
  }

  void note_trouble(const absl::Status& status) {
    bool tell = false;
    bool joining = false;
    {
      std::lock_guard lock(mutex_);
      joining = !registration_;
      tell = status.code() != said_.code();
      // "cannot be reached" and "cannot reach you" are both UNAVAILABLE, and whoever starts a node must hear of both.
      if (joining && status.code() == absl::StatusCode::kUnavailable) tell |= status.message() != said_.message();
      said_ = status;
    }
    if (!tell) return;
    // Later the address was right once, and finding out takes longer than a heartbeat may be late.
    const absl::Status trouble = joining ? explain_control_failure(status, asked_, options_.credentials) : status;
    {
      std::lock_guard lock(mutex_);
      trouble_ = trouble;
    }
    if (options_.on_trouble) options_.on_trouble(trouble);
  }

  void wait(DurationNs how_long_ns) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(how_long_ns),
                      [&] { return stopping_ || (send_now_ && (registered_ || yield_.has_begun())); });
  }

  uint64_t take_applied_revision() {
    std::lock_guard lock(mutex_);
    send_now_ = false;
    return applied_revision_;
  }

  bool stopping() const {
    std::lock_guard lock(mutex_);
    return stopping_;
  }
  bool ever_registered() const {
    std::lock_guard lock(mutex_);
    return registration_.has_value();
  }
  bool has_told() const {
    std::lock_guard lock(mutex_);
    return told_ || !options_.on_registered;
  }
  std::string control() const { return absl::StrCat("control plane at ", options_.control_address); }

  const NodeAgentOptions options_;
  ControlPeers peers_;

  // Owned by the agent's thread, and by whoever has joined it.
  ControlPeers::Outcome outcome_ = ControlPeers::Outcome::kAnswered;
  std::string asked_;  // the address of the last call
  std::string cluster_id_;
  bool registered_ = false;
  bool clock_is_off_ = false;
  DurationNs heartbeat_interval_ns_ = 500 * kMillisecond;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Protected by mutex_.
  std::optional<Registration> registration_;
  absl::Status refusal_;
  absl::Status trouble_;
  absl::Status said_;  // the trouble before it was explained
  uint64_t applied_revision_ = 0;
  std::string node_trouble_;
  std::vector<CopyReport> copies_;
  std::vector<ShardRef> unserved_;
  /// A registration that on_registered has not been told, and whether it has been told one.
  std::optional<Registration> untold_;
  bool told_ = false;
  std::shared_ptr<const v1::ReportReplicasRequest> findings_;
  bool have_findings_ = false;
  /// The control plane may hold findings of this node. Only the agent's thread.
  bool findings_stand_ = false;
  bool send_now_ = false;
  NodeYield yield_;
  bool stopping_ = false;
  grpc::ClientContext* context_ = nullptr;

  std::mutex join_mutex_;
  std::thread thread_;
  std::thread teller_;  // runs on_registered
};

NodeAgent::NodeAgent(NodeAgentOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

NodeAgent::~NodeAgent() {
  stop();
}

void NodeAgent::start() {
  impl_->start();
}
absl::StatusOr<Registration> NodeAgent::wait_registered(DurationNs timeout_ns) const {
  return impl_->wait_registered(timeout_ns);
}
void NodeAgent::set_applied_revision(uint64_t revision) {
  impl_->set_applied_revision(revision);
}
void NodeAgent::set_trouble(const std::string& trouble) {
  impl_->set_trouble(trouble);
}
void NodeAgent::set_unserved(std::vector<ShardRef> unserved) {
  impl_->set_unserved(std::move(unserved));
}
void NodeAgent::set_copies(std::vector<CopyReport> copies) {
  impl_->set_copies(std::move(copies));
}
void NodeAgent::set_findings(ReplicaReport findings) {
  impl_->set_findings(std::move(findings));
}
absl::StatusOr<size_t> NodeAgent::yield(DurationNs limit_ns) {
  return impl_->yield(limit_ns);
}
absl::Status NodeAgent::leave(bool force) {
  return impl_->leave(force);
}
void NodeAgent::stop() {
  impl_->stop();
}

}  // namespace skua::control
