#include "kvstore/client/control_access.h"

#include <optional>
#include <utility>

#include "control/client/bootstrap_client.h"
#include "control/client/shard_map_cache.h"

namespace skua::kv {
namespace {

class ControlAccess final : public ClusterAccess {
 public:
  ControlAccess(std::string control_address, control::CredentialsPtr credentials)
      : control_address_(std::move(control_address)),
        credentials_(std::move(credentials)),
        bootstrap_(std::in_place, credentials_) {}
  ~ControlAccess() override { stop(); }

  void start(MapFn on_map) override {
    map_ = std::make_unique<control::ShardMapCache>(control::ShardMapCacheOptions{
        .control_address = control_address_, .credentials = credentials_, .on_change = std::move(on_map)});
    map_->start();
  }

  void stop() override {
    if (map_ != nullptr) map_->stop();
    bootstrap_.reset();
  }

  void hurry() override { map_->hurry(); }
  std::string control_address() const override { return control_address_; }
  absl::Status connection() const override { return map_->connection(); }

  void describe(const std::string& grpc_address, const std::string& cluster_id, DurationNs timeout_ns,
                DescribeFn done) override {
    if (absl::Status status = bootstrap_->describe_async(grpc_address, cluster_id, timeout_ns, done); !status.ok()) {
      done(std::move(status));
    }
  }

  void open_session(const control::OpenSessionRequest& request, DurationNs timeout_ns, AnswerFn done) override {
    absl::Status status =
        bootstrap_->open_session_async(request, timeout_ns, [done](absl::StatusOr<control::OpenSessionAnswer> answer) {
          done(answer.ok() ? absl::StatusOr<std::string>(std::move(answer->answer)) : answer.status());
        });
    if (!status.ok()) done(std::move(status));
  }

 private:
  const std::string control_address_;
  const control::CredentialsPtr credentials_;
  std::optional<control::BootstrapClient> bootstrap_;
  std::unique_ptr<control::ShardMapCache> map_;
};

}  // namespace

std::unique_ptr<ClusterAccess> make_control_access(std::string control_address, control::CredentialsPtr credentials) {
  return std::make_unique<ControlAccess>(std::move(control_address), std::move(credentials));
}

}  // namespace skua::kv
