#include "kvstore/engine/log_thread.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/engine/wake_up.h"
#include "rpc/base/mpsc_ring.h"

namespace skua::kv {
namespace {

/// A group's mutations of one shard, applied by one lane. Reused from group to group.
struct ShardPart {
  ShardStore* store = nullptr;
  std::vector<Mutation> mutations;
  std::vector<MutationResult> results;
  std::vector<size_t> positions;  // in the group

  void clear() {
    store = nullptr;
    mutations.clear();
    positions.clear();
  }

  void apply() {
    results.assign(mutations.size(), {});
    // The results say it all; what an error adds is kept by the store (health).
    (void)store->apply(mutations, results);
  }
};

}  // namespace

class LogThread::Impl {
 public:
  Impl(const Options& options, GroupDone on_group_done)
      : options_(options), on_group_done_(std::move(on_group_done)), ring_(options.queue_ops_max) {
    group_.reserve(options_.group_ops_max);
    for (int lane = 1; lane < options_.lanes; ++lane) {
      helpers_.push_back(std::make_unique<Helper>());
      helpers_.back()->thread = std::thread([this, helper = helpers_.back().get()] { help(*helper); });
    }
    thread_ = std::thread([this] { run(); });
  }

  absl::Status submit(ShardStore& store, const Mutation& mutation, void* context) {
    if (stopping_.load(std::memory_order_relaxed)) {
      return absl::UnavailableError("the log thread has stopped; the write was not applied");
    }
    if (!ring_.try_push(LogEntry{&store, mutation, context, {}})) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return absl::ResourceExhaustedError(absl::StrCat("the log queue holds its limit kLogQueueOpsMax of ",
                                                       ring_.capacity(),
                                                       " writes; the disk is behind, try again later"));
    }
    submitted_.signal();
    return absl::OkStatus();
  }

  void stop() {
    if (!thread_.joinable()) return;
    stopping_.store(true, std::memory_order_release);
    submitted_.signal();
    thread_.join();
    for (auto& helper : helpers_) {
      helper->ending = true;
      helper->work.signal();
      helper->thread.join();
    }
  }

  Counters counters() const {
    return {groups_.load(std::memory_order_relaxed), mutations_.load(std::memory_order_relaxed),
            bytes_.load(std::memory_order_relaxed), refused_.load(std::memory_order_relaxed)};
  }

 private:
  /// A lane other than the log thread itself. It runs only between `work` and the group's end.
  struct Helper {
    WakeUp work;
    bool ending = false;  // handed over by `work`
    std::thread thread;
  };

  void run() {
    for (;;) {
      // Read before the ring: what was submitted before stop() is seen by the gathering that follows.
      const bool last_round = stopping_.load(std::memory_order_acquire);
      gather();
      if (!group_.empty()) {
        commit();
      } else if (last_round) {
        return;
      } else {
        submitted_.wait();
      }
    }
  }

  /// Takes what is queued, up to the limits of a group.
  void gather() {
    size_t bytes = 0;
    LogEntry entry;
    while (group_.size() < options_.group_ops_max && bytes < options_.group_bytes_max && ring_.try_pop(entry)) {
      bytes += entry.mutation.key.size() + entry.mutation.value.size();
      group_.push_back(entry);
    }
    if (group_.empty()) return;
    groups_.fetch_add(1, std::memory_order_relaxed);
    mutations_.fetch_add(group_.size(), std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  void commit() {
    split_by_shard();
    apply_parts();
    for (size_t i = 0; i < part_count_; ++i) {
      const ShardPart& part = parts_[i];
      for (size_t k = 0; k < part.positions.size(); ++k) {
        group_[part.positions[k]].result = part.results[k];
      }
    }
    on_group_done_(group_);
    group_.clear();
  }

  void split_by_shard() {
    part_count_ = 0;
    for (size_t i = 0; i < group_.size(); ++i) {
      ShardPart& part = part_of(group_[i].store);
      part.mutations.push_back(group_[i].mutation);
      part.positions.push_back(i);
    }
  }

  /// The part of this shard, made if it is the shard's first mutation. A worker has few shards, so a walk is enough.
  ShardPart& part_of(ShardStore* store) {
    for (size_t i = 0; i < part_count_; ++i) {
      if (parts_[i].store == store) return parts_[i];
    }
    if (part_count_ == parts_.size()) parts_.emplace_back();
    ShardPart& part = parts_[part_count_++];
    part.clear();
    part.store = store;
    return part;
  }

  /// Wakes as many helpers as there is work for, works along, and waits for them.
  void apply_parts() {
    next_part_.store(0, std::memory_order_relaxed);
    const size_t helpers = std::min(helpers_.size(), part_count_ - 1);
    helping_.store(static_cast<int>(helpers), std::memory_order_relaxed);
    for (size_t i = 0; i < helpers; ++i) helpers_[i]->work.signal();
    take_parts();
    while (helping_.load(std::memory_order_acquire) > 0) helpers_done_.wait();
  }

  void take_parts() {
    for (;;) {
      const size_t i = next_part_.fetch_add(1, std::memory_order_relaxed);
      if (i >= part_count_) return;
      parts_[i].apply();
    }
  }

  void help(Helper& self) {
    for (;;) {
      self.work.wait();
      if (self.ending) return;
      take_parts();
      if (helping_.fetch_sub(1, std::memory_order_acq_rel) == 1) helpers_done_.signal();
    }
  }

  // Constant after construction.
  const Options options_;
  const GroupDone on_group_done_;

  // Shared with submitters.
  MpscRing<LogEntry> ring_;
  WakeUp submitted_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> groups_{0};
  std::atomic<uint64_t> mutations_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> refused_{0};

  // The log thread's; lanes read and fill parts_ while a group is applied.
  std::vector<LogEntry> group_;
  std::vector<ShardPart> parts_;
  size_t part_count_ = 0;
  std::atomic<size_t> next_part_{0};
  std::atomic<int> helping_{0};
  WakeUp helpers_done_;

  std::vector<std::unique_ptr<Helper>> helpers_;
  std::thread thread_;
};

LogThread::LogThread(const Options& options, GroupDone on_group_done)
    : impl_(std::make_unique<Impl>(options, std::move(on_group_done))) {}

LogThread::~LogThread() {
  stop();
}

absl::Status LogThread::submit(ShardStore& store, const Mutation& mutation, void* context) {
  return impl_->submit(store, mutation, context);
}

void LogThread::stop() {
  impl_->stop();
}

LogThread::Counters LogThread::counters() const {
  return impl_->counters();
}

}  // namespace skua::kv
