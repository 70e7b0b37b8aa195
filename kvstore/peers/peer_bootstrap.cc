#include "kvstore/peers/peer_bootstrap.h"
#include "kvstore/peers/peer_limits.h"

#include <atomic>
#include <utility>

#include "kvstore/types/task_thread.h"

namespace skua::kv {
namespace {

class GrpcPeerBootstrap final : public PeerBootstrap {
 public:
  explicit GrpcPeerBootstrap(control::CredentialsPtr credentials) : client_(std::move(credentials)) {}
  ~GrpcPeerBootstrap() override { is_stopping_ = true; }

  void describe(const std::string& grpc_address, const std::string& cluster_id, DescribeFn done) override {
    submit(done, [this, grpc_address, cluster_id, done] {
      return client_.describe_async(grpc_address, cluster_id, kPeerBootstrapTimeoutNs, done);
    });
  }

  void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) override {
    submit(done, [this, request, done] { return client_.open_session_async(request, kPeerBootstrapTimeoutNs, done); });
  }

 private:
  /// Runs `start` on the thread. If it fails, or will not be run, `done` has the error.
  template <typename Done, typename Start>
  void submit(const Done& done, Start start) {
    const bool accepted = thread_.submit([this, done, start = std::move(start)] {
      absl::Status status = is_stopping_ ? absl::CancelledError("the node is stopping") : start();
      if (!status.ok()) done(std::move(status));
    });
    if (accepted) return;
    done(absl::ResourceExhaustedError("too many sessions with other nodes are being opened; this is tried again"));
  }

  std::atomic<bool> is_stopping_ = false;
  control::BootstrapClient client_;  // used by the thread only
  TaskThread thread_{{.name = "peer-bootstrap", .queue_max = kPeerBootstrapJobsMax}};
};

}  // namespace

std::unique_ptr<PeerBootstrap> make_grpc_peer_bootstrap(control::CredentialsPtr credentials) {
  return std::make_unique<GrpcPeerBootstrap>(std::move(credentials));
}

}  // namespace skua::kv
