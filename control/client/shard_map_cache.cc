#include "control/client/shard_map_cache.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/client/backoff.h"
#include "control/client/channel.h"
#include "control/client/what_answers.h"
#include "control/proto/control.grpc.pb.h"
#include "control/proto/convert.h"

namespace skua::control {
namespace {

/// hurry() shortens a pause to no less than this: peers and clients can bring it about.
constexpr DurationNs kHurryPauseNs = 100 * kMillisecond;

/// The control plane wants nothing to do with us, and will say so again.
bool is_refusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status);
}

}  // namespace

class ShardMapCache::Impl {
 public:
  explicit Impl(ShardMapCacheOptions options)
      : options_(std::move(options)),
        peers_(options_.control_address, options_.credentials),
        cluster_id_(options_.cluster_id),
        snapshot_(std::make_shared<ShardMap>()),
        connection_(absl::UnavailableError(
            absl::StrCat("control plane at ", options_.control_address, " has not answered yet"))) {}

  void start() {
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::shared_ptr<const ShardMap> snapshot() const {
    std::lock_guard lock(mutex_);
    return snapshot_;
  }

  uint64_t revision() const { return revision_.load(std::memory_order_acquire); }

  absl::Status wait_until(const std::function<bool(const ShardMap&)>& wanted, DurationNs timeout_ns) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    std::unique_lock lock(mutex_);
    while (true) {
      if (wanted(*snapshot_)) return absl::OkStatus();
      if (is_refusal(connection_)) return connection_;
      if (stopping_) return absl::CancelledError("the shard map is no longer followed");
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) break;
    }
    if (wanted(*snapshot_)) return absl::OkStatus();
    const std::string have =
        absl::StrCat("waited ", timeout_ns / kMillisecond, " ms for a newer shard map than revision ",
                     snapshot_->revision, " from the control plane at ", options_.control_address);
    if (connection_.ok()) return absl::DeadlineExceededError(have);
    return absl::DeadlineExceededError(absl::StrCat(have, ": ", std::string(connection_.message())));
  }

  void hurry() {
    {
      std::lock_guard lock(mutex_);
      hurry_ = true;
    }
    changed_.notify_all();
  }

  void expect(uint64_t revision) {
    const auto now = std::chrono::steady_clock::now();
    std::lock_guard lock(mutex_);
    if (expected_ <= revision_.load(std::memory_order_relaxed)) {
      expected_ = revision;
      expected_since_ = now;
    } else if (now - expected_since_ >= std::chrono::nanoseconds(options_.late_after_ns)) {
      expected_since_ = now;
      if (context_ != nullptr) context_->TryCancel();
      hurry_ = true;
      changed_.notify_all();
    }
  }

  absl::Status connection() const {
    std::lock_guard lock(mutex_);
    return decided_ ? connection_ : absl::UnknownError(connection_.message());
  }

 private:
  void run() {
    Backoff backoff({}, std::random_device{}());
    size_t redirects = 0;
    size_t lost = 0;  // in a row
    while (true) {
      bool got_map = false;
      const absl::Status ended = follow(got_map);
      if (got_map) backoff.reset();
      // Two that name each other must not keep us from waiting.
      if (outcome_ == ControlPeers::Outcome::kRedirected && !got_map && ++redirects <= peers_.addresses()) continue;
      redirects = 0;
      if (outcome_ != ControlPeers::Outcome::kLost) lost = 0;
      if (outcome_ == ControlPeers::Outcome::kLost && !ControlPeers::is_second_way(peers_.peer())) ++lost;
      report(ended, lost >= peers_.addresses() || is_refusal(ended));
      std::unique_lock lock(mutex_);
      const DurationNs pause = backoff.next();
      const DurationNs least = std::min(pause, kHurryPauseNs);
      changed_.wait_for(lock, std::chrono::nanoseconds(least), [&] { return stopping_; });
      changed_.wait_for(lock, std::chrono::nanoseconds(pause - least), [&] { return stopping_ || hurry_; });
      hurry_ = false;
      if (stopping_) return;
    }
  }

  bool is_stopping() const {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  /// One watch, from open to end. Returns why it ended, never OK.
  absl::Status follow(bool& got_map) {
    const ControlPeers::Peer& peer = peers_.peer();
    ControlPeers::recover(peer, [this] { return !is_stopping(); });
    grpc::ClientContext context;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return absl::CancelledError("stopping");
      context_ = &context;
    }
    v1::WatchShardMapRequest request;
    request.set_cluster_id(cluster_id_);
    *request.mutable_versions() = to_proto(kProtocolVersions);
    request.set_after_revision(revision());
    const auto stream = v1::ShardMap::NewStub(peer.channel)->WatchShardMap(&context, request);
    v1::WatchShardMapReply reply;
    absl::Status refused;
    while (refused.ok() && stream->Read(&reply)) {
      refused = take(reply);
      if (!refused.ok()) {
        context.TryCancel();
      } else {
        got_map = true;
        report(absl::OkStatus());
      }
    }
    const grpc::Status ended = stream->Finish();
    {
      std::lock_guard lock(mutex_);
      context_ = nullptr;
    }
    outcome_ = peers_.learn(peer, ended, context);
    if (!refused.ok()) return refused;
    const std::string what = absl::StrCat("control plane at ", options_.control_address);
    if (ended.ok()) return absl::UnavailableError(absl::StrCat(what, " ended the watch"));
    return explained(from_grpc(ended, what), peer.address);
  }

  /// Until the first map the address may be wrong: then the error says what stands there. Looked for once per error.
  absl::Status explained(const absl::Status& status, const std::string& address) {
    if (revision() != 0 || outcome_ == ControlPeers::Outcome::kNobodyLeads) return status;
    if (status != said_) {
      said_ = status;
      explained_ = explain_control_failure(status, address, options_.credentials);
      // One of several addresses is wrong: no reason to end, while another may be right.
      if (peers_.addresses() > 1) explained_ = absl::Status(status.code(), explained_.message());
    }
    return explained_;
  }

  /// Checks a map and makes it the snapshot.
  absl::Status take(const v1::WatchShardMapReply& reply) {
    if (!reply.has_map()) return absl::OkStatus();
    auto map = from_proto(reply.map());
    if (!map.ok()) return map.status();
    if (!cluster_id_.empty() && map->cluster_id != cluster_id_) {
      return absl::FailedPreconditionError(absl::StrCat("control plane at ", options_.control_address,
                                                        " sent a map of cluster ", map->cluster_id,
                                                        ", expected cluster ", cluster_id_));
    }
    if (map->revision < revision()) {
      return absl::DataLossError(absl::StrCat("control plane at ", options_.control_address,
                                              " went back from map revision ", revision(), " to ", map->revision,
                                              ": was its data restored from a backup? The newer map stays in use"));
    }
    if (map->revision == revision()) return absl::OkStatus();
    cluster_id_ = map->cluster_id;
    if (options_.credentials != nullptr) options_.credentials->deny_list().update(map->revision, map->denied);
    auto snapshot = std::make_shared<const ShardMap>(*std::move(map));
    {
      std::lock_guard lock(mutex_);
      snapshot_ = snapshot;
      revision_.store(snapshot->revision, std::memory_order_release);
    }
    changed_.notify_all();
    if (options_.on_change) options_.on_change(std::move(snapshot));
    return absl::OkStatus();
  }

  /// `decided`: asking the other processes, or waiting until one leads, will not help.
  void report(const absl::Status& connection, bool decided = true) {
    bool tell = false;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      tell = !connection.ok() && connection.code() != connection_.code();
      connection_ = connection;
      decided_ = decided;
    }
    changed_.notify_all();
    if (tell && options_.on_trouble) options_.on_trouble(connection);
  }

  const ShardMapCacheOptions options_;
  ControlPeers peers_;

  // Owned by the thread.
  ControlPeers::Outcome outcome_ = ControlPeers::Outcome::kAnswered;
  std::string cluster_id_;
  absl::Status said_;
  absl::Status explained_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Protected by mutex_; revision_ is also read without.
  std::shared_ptr<const ShardMap> snapshot_;
  std::atomic<uint64_t> revision_{0};
  absl::Status connection_;
  bool decided_ = false;
  grpc::ClientContext* context_ = nullptr;
  bool stopping_ = false;
  uint64_t expected_ = 0;  // a revision that the control plane had
  std::chrono::steady_clock::time_point expected_since_;
  bool hurry_ = false;

  std::thread thread_;
};

ShardMapCache::ShardMapCache(ShardMapCacheOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

ShardMapCache::~ShardMapCache() {
  stop();
}

void ShardMapCache::start() {
  impl_->start();
}
void ShardMapCache::stop() {
  impl_->stop();
}
std::shared_ptr<const ShardMap> ShardMapCache::snapshot() const {
  return impl_->snapshot();
}
uint64_t ShardMapCache::revision() const {
  return impl_->revision();
}
void ShardMapCache::expect(uint64_t revision) {
  impl_->expect(revision);
}

void ShardMapCache::hurry() {
  impl_->hurry();
}
absl::Status ShardMapCache::connection() const {
  return impl_->connection();
}

absl::Status ShardMapCache::wait_for_revision(uint64_t revision, DurationNs timeout_ns) const {
  return impl_->wait_until([&](const ShardMap& map) { return map.revision >= revision; }, timeout_ns);
}

absl::Status ShardMapCache::wait_until(const std::function<bool(const ShardMap&)>& wanted,
                                       DurationNs timeout_ns) const {
  return impl_->wait_until(wanted, timeout_ns);
}

}  // namespace skua::control
