#include "control/store/etcd_election.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "control/store/etcd_client.h"
#include "rpc/base/check.h"

namespace skua::control {
namespace {

/// Short against the lease: a call that hangs must not cost the lead.
constexpr DurationNs kCallTimeout = kSecond;

/// Puts our key if there is none; answers with the key that is there.
etcdserverpb::TxnRequest campaign_request(const std::string& key, const std::string& value, int64_t lease) {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& absent = *request.add_compare();
  absent.set_key(key);
  absent.set_result(etcdserverpb::Compare::EQUAL);
  absent.set_target(etcdserverpb::Compare::CREATE);
  absent.set_create_revision(0);
  etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
  put.set_lease(lease);
  request.add_failure()->mutable_request_range()->set_key(key);
  return request;
}

class EtcdElection final : public Election {
 public:
  EtcdElection(EtcdStore& store, const ElectionOptions& options)
      : store_(store),
        options_(options),
        client_(store.address(), kCallTimeout, store.client().tls()),
        core_(options) {}
  ~EtcdElection() override { EtcdElection::stop(); }

  void start(const std::string& own_address, std::function<void(const Leadership&)> changed) override {
    SKUA_CHECK(!thread_.joinable(), "Election::start() may be called once");
    own_address_ = own_address;
    changed_ = std::move(changed);
    thread_ = std::thread([this] { run(); });
  }

  void stop() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (!thread_.joinable()) return;
    thread_.join();
    // Others need not wait for the lease to run out. If this fails they do.
    if (core_.lease() != 0) client_.revoke_lease(core_.lease()).IgnoreError();
  }

 private:
  void run() {
    while (true) {
      const ElectionCore::Step step = core_.next(clock_.now_ns());
      tell();
      if (step.action != ElectionCore::Action::kWait) {
        const absl::Status status = act(step.action);
        if (!status.ok()) core_.failed(std::string(status.message()), clock_.now_ns());
        tell();
      }
      std::unique_lock lock(mutex_);
      if (step.action == ElectionCore::Action::kWait) {
        const DurationNs wait_ns = std::max<DurationNs>(step.until - clock_.now_ns(), 0);
        wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns), [&] { return stopping_; });
      }
      if (stopping_) return;
    }
  }

  absl::Status act(ElectionCore::Action action) {
    const TimeNs sent = clock_.now_ns();
    if (action == ElectionCore::Action::kGrantLease) {
      const auto lease = client_.grant_lease(options_.lease_ns);
      if (lease.ok()) core_.granted(*lease, sent);
      return lease.status();
    }
    if (action == ElectionCore::Action::kRenewLease) {
      absl::Status status = client_.keep_lease(core_.lease());
      if (status.ok()) core_.renewed(sent);
      if (status.code() != absl::StatusCode::kNotFound) return status;
      core_.lease_gone();
      return absl::OkStatus();
    }
    return campaign();
  }

  absl::Status campaign() {
    const int64_t lease = core_.lease();
    const auto response = client_.transact(campaign_request(client_.address().leader_key(), own_address_, lease));
    if (response.status().code() == absl::StatusCode::kNotFound) {  // the lease ran out
      core_.lease_gone();
      return absl::OkStatus();
    }
    if (!response.ok()) return response.status();
    const TimeNs now = clock_.now_ns();
    if (response->succeeded()) {
      core_.campaigned(lease, static_cast<uint64_t>(response->header().revision()), own_address_, now);
    } else if (response->responses_size() == 1 && response->responses(0).response_range().kvs_size() == 1) {
      const mvccpb::KeyValue& key = response->responses(0).response_range().kvs(0);
      core_.campaigned(key.lease(), static_cast<uint64_t>(key.create_revision()), key.value(), now);
    } else {
      return absl::UnavailableError("etcd answered the election with something else");
    }
    return absl::OkStatus();
  }

  void tell() {
    const Leadership now = core_.leadership(clock_.now_ns());
    if (told_ == now) return;
    told_ = now;
    if (now.leads) store_.require_leader(now.term);
    changed_(now);
  }

  EtcdStore& store_;
  const ElectionOptions options_;
  EtcdClient client_;
  SteadyClock clock_;
  std::string own_address_;
  std::function<void(const Leadership&)> changed_;

  // Owned by the thread, and by whoever has joined it.
  ElectionCore core_;
  Leadership told_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // protected by mutex_
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Election> make_etcd_election(EtcdStore& store, const ElectionOptions& options) {
  return std::make_unique<EtcdElection>(store, options);
}

}  // namespace skua::control
