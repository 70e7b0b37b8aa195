#include "kvstore/client/client.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/async_client.h"

namespace skua::kv {
namespace {

// The longest sleep of the client's thread; post() wakes it.
constexpr std::chrono::nanoseconds kPollWait = std::chrono::seconds(1);

/// Set once by one thread, awaited by another thread, which may destroy the flag as soon as wait() has returned. So
/// set() notifies while it holds the mutex.
class Flag {
 public:
  void set() {
    std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace

struct Client::Impl {
  ~Impl() {
    stopping.store(true, std::memory_order_release);
    if (async != nullptr) static_cast<void>(async->post([] {}));
    may_leave.set();
    if (thread.joinable()) thread.join();
  }

  /// Making a client takes memory, threads and descriptors. The exceptions that tell of a lack would end the process
  /// here: nobody is above this thread.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> without_exceptions(
      absl::AnyInvocable<absl::StatusOr<std::unique_ptr<AsyncClient>>()>& make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("no memory for a client");
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("no means for a client: ", error.what()));
    }
  }

  void run(absl::AnyInvocable<absl::StatusOr<std::unique_ptr<AsyncClient>>()> make) {
    absl::StatusOr<std::unique_ptr<AsyncClient>> made = without_exceptions(make);
    if (!made.ok()) {
      start_status = made.status();
      started.set();
      return;
    }
    async = made->get();
    started.set();
    while (!stopping.load(std::memory_order_acquire)) (*made)->poll(kPollWait);
    may_leave.wait();  // ~Impl() may be inside async->post() until then
  }

  /// Runs `submit(client, done)` on the client's thread and waits until `done(result)` was called,
  /// or `submit` returned an error.
  template <typename Result, typename Submit>
  Result wait_for(Submit submit) {
    struct Wait {
      Result result;
      Flag done;
    } wait;
    const bool posted = async->post([&wait, &submit, this] {
      absl::Status status = submit(*async, [&wait](auto&& outcome) {
        take_or_refuse(wait.result, std::forward<decltype(outcome)>(outcome));
        wait.done.set();
      });
      if (status.ok()) return;
      wait.result.status = std::move(status);
      wait.done.set();
    });
    if (!posted) {
      wait.result.status = absl::ResourceExhaustedError(
          "too many calls wait for the client's thread: use fewer threads or an AsyncClient");
      return std::move(wait.result);
    }
    wait.done.wait();
    return std::move(wait.result);
  }

  template <typename Result, typename Call>
  Result carry_out(Call&& call) {
    return wait_for<Result>(
        [&call](AsyncClient& client, auto done) { return client.run(std::forward<Call>(call), std::move(done)); });
  }

  /// The copy of what was read may be larger than the memory that is left. That exception would end the process, too.
  template <typename Result, typename From>
  static void take_or_refuse(Result& to, From&& from) {
    try {
      take(to, std::forward<From>(from));
    } catch (const std::bad_alloc&) {
      to = Result();
      to.status = absl::ResourceExhaustedError("no memory for the result");
    }
  }

  // Results are copied out of received memory here, on the client's thread: leases must end on that thread.
  static void take(ReadResult& to, GetResult&& from) {
    to.value.assign(from.value.bytes());
    to.ttl = from.ttl;
    to.mark = from.mark;
    static_cast<Outcome&>(to) = std::move(from);
  }
  static void take(WriteResult& to, WriteResult&& from) { to = std::move(from); }
  static void take(BatchResult& to, BatchResult&& from) { to = std::move(from); }
  static void take(RowsResult& to, ScanResult&& from) {
    to.rows.reserve(from.rows.size());
    for (const Row& row : from.rows) {
      to.rows.push_back({std::string(row.key), std::string(row.value), row.version, row.mark});
    }
    to.count = from.count;
    to.has_more = from.has_more;
    to.next_start = from.next_start;
    to.tokens = std::move(from.tokens);
    static_cast<Outcome&>(to) = std::move(from);
  }
  static bool is_answered(const absl::Status& status) { return status.ok() || absl::IsNotFound(status); }
  struct ManyResult : Outcome {
    std::vector<ReadResult> entries;
  };
  static void take(ManyResult& to, MultiGetResult&& from) {
    to.entries.resize(from.entries.size());
    for (size_t i = 0; i < from.entries.size(); ++i) {
      to.entries[i].status = from.entries[i].status;
      to.entries[i].version = from.entries[i].version;
      to.entries[i].token = from.entries[i].token;
      to.entries[i].mark = from.entries[i].mark;
      to.entries[i].value.assign(from.entries[i].value);
      // No node has said that about the key.
      if (!is_answered(from.entries[i].status)) to.entries[i].detail = from.detail;
    }
    static_cast<Outcome&>(to) = std::move(from);
  }

  struct CountersResult {
    absl::Status status;
    ClientCounters counters;
  };
  static void take(CountersResult& to, const ClientCounters& from) { to.counters = from; }

  AsyncClient* async = nullptr;  // owned by run(), on the thread
  absl::Status start_status;
  Flag started;
  Flag may_leave;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::create(ClientOptions options) {
  return create_over([options = std::move(options)] { return AsyncClient::create(options); });
}

absl::StatusOr<std::unique_ptr<Client>> Client::create_over(
    absl::AnyInvocable<absl::StatusOr<std::unique_ptr<AsyncClient>>()> make) {
  auto impl = std::make_unique<Impl>();
  impl->thread = std::thread([raw = impl.get(), make = std::move(make)]() mutable { raw->run(std::move(make)); });
  impl->started.wait();
  if (!impl->start_status.ok()) return impl->start_status;
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

ReadResult Client::run(const GetCall& call) {
  return impl_->carry_out<ReadResult>(call);
}

WriteResult Client::run(WriteCall&& call) {
  return impl_->carry_out<WriteResult>(std::move(call));
}

BatchResult Client::run(const BatchCall& call) {
  return impl_->carry_out<BatchResult>(call);
}

std::vector<ReadResult> Client::run(const MultiGetCall& call) {
  const size_t count = call.keys.size();
  Impl::ManyResult result = impl_->carry_out<Impl::ManyResult>(call);
  if (result.entries.size() == count) return std::move(result.entries);
  ReadResult refused;
  static_cast<Outcome&>(refused) = std::move(result);
  return std::vector<ReadResult>(count, refused);
}

RowsResult Client::run(const ScanCall& call) {
  return impl_->carry_out<RowsResult>(call);
}

ClientCounters Client::counters() {
  return impl_
      ->wait_for<Impl::CountersResult>([](AsyncClient& client, auto done) {
        done(client.counters());
        return absl::OkStatus();
      })
      .counters;
}

}  // namespace skua::kv
