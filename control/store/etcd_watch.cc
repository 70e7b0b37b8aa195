#include "control/store/etcd_watch.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "control/store/transaction_rules.h"

namespace skua::control {
namespace {

using std::chrono::nanoseconds;
using std::chrono::system_clock;

constexpr DurationNs kReopenPause = 100 * kMillisecond;
/// system_clock counts in nanoseconds of 64 bits.
constexpr DurationNs kTimeoutMax = int64_t{366} * 24 * 3600 * kSecond;

/// Only one operation is on its way, so its tag says nothing.
void* const kTag = nullptr;

}  // namespace

EtcdWatch::EtcdWatch(EtcdClient& client, std::string range_start, size_t strip, uint64_t first_revision)
    : client_(client),
      range_start_(std::move(range_start)),
      strip_(strip),
      next_(first_revision),
      complete_(first_revision - 1) {
  open();
}

EtcdWatch::~EtcdWatch() {
  if (stream_ != nullptr) {
    stream_->context.TryCancel();
    void* tag = nullptr;
    bool ok = false;
    if (state_ != State::kIdle) queue_.Next(&tag, &ok);
    if (state_ != State::kFinishing) {
      stream_->calls->Finish(&stream_->ended, kTag);
      queue_.Next(&tag, &ok);
    }
  }
  queue_.Shutdown();
}

absl::StatusOr<WatchBatch> EtcdWatch::next(DurationNs timeout_ns) {
  const WallTime deadline = system_clock::now() + nanoseconds(std::clamp<DurationNs>(timeout_ns, 0, kTimeoutMax));
  while (true) {
    WatchBatch batch = take_events();
    if (!batch.events.empty()) return batch;
    if (!final_.ok()) return final_;
    if (advance(deadline)) continue;
    if (!live_ && !trouble_.ok()) return trouble_;
    return batch;
  }
}

bool EtcdWatch::advance(WallTime deadline) {
  if (state_ == State::kClosed) {
    std::this_thread::sleep_until(std::min(open_after_, deadline));
    if (system_clock::now() < open_after_) return false;
    open();
  }
  if (state_ == State::kIdle) {
    stream_->response.Clear();
    state_ = State::kReading;
    stream_->calls->Read(&stream_->response, kTag);
  }
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) return false;
  if (state_ == State::kFinishing) {
    closed();
  } else if (!ok) {
    finish();
  } else if (state_ == State::kOpening) {
    ask();
  } else if (state_ == State::kAsking) {
    state_ = State::kIdle;
  } else {
    state_ = State::kIdle;
    take_response();
  }
  return true;
}

void EtcdWatch::open() {
  EtcdClient::Member& member = client_.member();
  stream_ = std::unique_ptr<Stream>(new Stream{member, {}, {}, {}, nullptr});
  ask_for_leader(stream_->context);
  stream_->calls = member.watch->AsyncWatch(&stream_->context, &queue_, kTag);
  state_ = State::kOpening;
}

void EtcdWatch::ask() {
  etcdserverpb::WatchRequest request;
  auto& create = *request.mutable_create_request();
  create.set_key(range_start_);
  create.set_range_end(prefix_end(range_start_));
  create.set_start_revision(static_cast<int64_t>(std::max<uint64_t>(complete_, 1)));
  create.set_fragment(true);
  state_ = State::kAsking;
  stream_->calls->Write(request, kTag);
}

void EtcdWatch::finish() {
  live_ = false;
  state_ = State::kFinishing;
  stream_->calls->Finish(&stream_->ended, kTag);
}

void EtcdWatch::closed() {
  trouble_ = client_.translate(stream_->ended, stream_->member);
  if (trouble_.ok()) trouble_ = absl::UnavailableError("etcd ended the watch");
  client_.move_on(stream_->member);
  stream_.reset();
  state_ = State::kClosed;
  open_after_ = system_clock::now() + nanoseconds(kReopenPause);
  // The rest of a revision that was cut in two comes again.
  while (!arrived_.empty() && arrived_.back().kv.mod_revision > complete_) arrived_.pop_back();
}

void EtcdWatch::take_response() {
  const etcdserverpb::WatchResponse& response = stream_->response;
  if (response.compact_revision() != 0) {
    final_ = compacted_error(complete_ + 1, static_cast<uint64_t>(response.compact_revision()) + 1);
    return;
  }
  if (response.canceled()) {
    stream_->context.TryCancel();
    finish();
    return;
  }
  live_ = true;
  for (const mvccpb::Event& event : response.events()) {
    const mvccpb::KeyValue& kv = event.kv();
    const auto revision = static_cast<uint64_t>(kv.mod_revision());
    if (revision <= complete_) continue;
    const bool is_put = event.type() == mvccpb::Event::PUT;
    arrived_.push_back({is_put ? WatchEvent::Kind::kPut : WatchEvent::Kind::kDelete,
                        {kv.key().substr(strip_), kv.value(), static_cast<uint64_t>(kv.create_revision()), revision}});
  }
  if (arrived_.empty()) return;
  const uint64_t last = arrived_.back().kv.mod_revision;
  complete_ = std::max(complete_, response.fragment() ? last - 1 : last);
}

WatchBatch EtcdWatch::take_events() {
  WatchBatch batch;
  while (!arrived_.empty() && arrived_.front().kv.mod_revision <= complete_) {
    const uint64_t revision = arrived_.front().kv.mod_revision;
    if (batch.events.size() >= kWatchBatchMax && batch.events.back().kv.mod_revision != revision) break;
    batch.events.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
    next_ = revision + 1;
  }
  batch.revision = next_ - 1;
  return batch;
}

}  // namespace skua::control
