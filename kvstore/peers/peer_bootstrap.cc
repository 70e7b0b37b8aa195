#include "kvstore/peers/peer_bootstrap.h"
#include "kvstore/peers/peer_limits.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace skua::kv {
namespace {

class GrpcPeerBootstrap final : public PeerBootstrap {
 public:
  explicit GrpcPeerBootstrap(control::CredentialsPtr credentials)
      : credentials_(std::move(credentials)), thread_([this] { run(); }) {}

  ~GrpcPeerBootstrap() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void describe(const std::string& grpc_address, const std::string& cluster_id, DescribeFn done) override {
    submit([this, grpc_address, cluster_id, done](const absl::Status& may) {
      absl::Status status = may;
      if (status.ok()) status = client_->describe_async(grpc_address, cluster_id, kPeerBootstrapTimeoutNs, done);
      if (!status.ok()) done(std::move(status));
    });
  }

  void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) override {
    submit([this, request, done](const absl::Status& may) {
      absl::Status status = may;
      if (status.ok()) status = client_->open_session_async(request, kPeerBootstrapTimeoutNs, done);
      if (!status.ok()) done(std::move(status));
    });
  }

 private:
  /// Called once: with OK on the thread, or with the error why it will not run.
  using Job = std::function<void(const absl::Status&)>;

  void submit(Job job) {
    {
      std::lock_guard lock(mutex_);
      if (!stopping_ && jobs_.size() < kPeerBootstrapJobsMax) {
        jobs_.push_back(std::move(job));
        wake_.notify_one();
        return;
      }
    }
    job(absl::ResourceExhaustedError("too many sessions with other nodes are being opened; this is tried again"));
  }

  void run() {
    // The name is for people who look at top(1). A failure has no effect.
    static_cast<void>(pthread_setname_np(pthread_self(), "peer-bootstrap"));
    client_.emplace(credentials_);
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) break;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      const bool may = !stopping_;
      lock.unlock();
      job(may ? absl::OkStatus() : absl::CancelledError("the node is stopping"));
      lock.lock();
    }
    lock.unlock();
    client_.reset();
  }

  const control::CredentialsPtr credentials_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::optional<control::BootstrapClient> client_;  // used by the thread only
  std::thread thread_;
};

}  // namespace

std::unique_ptr<PeerBootstrap> make_grpc_peer_bootstrap(control::CredentialsPtr credentials) {
  return std::make_unique<GrpcPeerBootstrap>(std::move(credentials));
}

}  // namespace skua::kv
