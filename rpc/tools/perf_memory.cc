#include "rpc/tools/perf_memory.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/tsc_clock.h"
#include "rpc/memory/arena.h"

namespace skua::rpc::perf {
namespace {

using Kind = OneSidedOperation::Kind;

constexpr DurationNs kLookForCloseEvery = 20 * kMillisecond;
constexpr DurationNs kConnectWithin = 10 * kSecond;
constexpr size_t kAtomicBytes = 8;
constexpr uint32_t kMemoryMax = 16u << 20;

absl::StatusOr<OneSided*> one_sided_of(Transport& transport, const TransportChoice& choice) {
  if (OneSided* out = transport.one_sided(); out != nullptr) return out;
  return absl::FailedPreconditionError(
      absl::StrCat("transport ", choice.name, " has no operations on remote memory: --transport verbs has"));
}

/// Polls the transport. No test sends packets, so an arriving packet is the transport's own or a stray one, and is
/// released.
void turn(Transport& transport) {
  std::array<RxPacket, kBurstMax> packets;
  const size_t count = transport.rx_burst(packets);
  for (size_t i = 0; i < count; ++i) transport.release(std::span(&packets[i].buffer, 1));
  std::array<LinkEvent, 4> events;
  transport.poll_links(events);
}

/// Memory that is registered with the transport.
class Region {
 public:
  Region(Transport& transport, size_t bytes)
      : arena_({.limit_bytes = bytes + (size_t{4} << 20),
                .on_map = [&transport](MutableByteSpan region) { return transport.register_region(region); },
                .on_unmap = [&transport](MutableByteSpan region) { transport.unregister_region(region); }}),
        memory_(arena_.map(bytes)) {
    if (memory_.ok()) memory_ = memory_->first(bytes);
  }
  [[nodiscard]] absl::Status status() const { return memory_.status(); }
  [[nodiscard]] MutableByteSpan bytes() const { return *memory_; }

 private:
  Arena arena_;
  absl::StatusOr<MutableByteSpan> memory_;
};

absl::Status wait_until_ready(Transport& transport, OneSided& operations, PeerId peer, const std::atomic<bool>& stop) {
  const SteadyClock clock;
  const TimeNs give_up = clock.now_ns() + kConnectWithin;
  while (!operations.ready(peer)) {
    turn(transport);
    if (stop) return stopped_early();
    if (clock.now_ns() > give_up) return absl::UnavailableError("no connection for operations on memory came about");
  }
  return absl::OkStatus();
}

/// Keeps `outstanding` operations in flight.
class MemoryClient {
 public:
  MemoryClient(Transport& transport, OneSided& operations, MutableByteSpan local, const OneSidedOperation& operation,
               const TestOptions& options, const std::atomic<bool>& stop)
      : transport_(transport), operations_(operations), options_(options), stop_(stop), started_(options.outstanding) {
    const size_t stride = local.size() / options.outstanding;
    for (uint32_t i = 0; i < options.outstanding; ++i) {
      OneSidedOperation& one = plan_.emplace_back(operation);
      one.local = local.subspan(i * stride, operation.local.size());
      one.cookie = i;
    }
  }

  TestResult run(DurationNs duration_ns) {
    TestResult result;
    const TimeNs begun = clock_.now_ns();
    const TimeNs end = begun + duration_ns;
    for (uint32_t i = 0; i < options_.outstanding; ++i) post(i, clock_.now_ns(), result);
    std::array<OneSidedCompletion, kBurstMax> done;
    uint32_t idle = 0;
    while (in_flight_ > 0) {
      const size_t count = operations_.reap(done);
      if (count == 0 && ++idle % 1024 == 0) turn(transport_);
      for (size_t i = 0; i < count; ++i) {
        --in_flight_;
        const auto index = static_cast<uint32_t>(done[i].cookie);
        const TimeNs now = clock_.now_ns();
        result.latency_ns.record(static_cast<uint64_t>(now - started_[index]));
        ++(done[i].ok ? result.calls : result.failed);
        if (done[i].ok && now < end && !stop_.load(std::memory_order_relaxed)) post(index, now, result);
      }
    }
    result.elapsed_ns = clock_.now_ns() - begun;
    if (result.failed > 0) result.first_failure = absl::UnavailableError("an operation on the peer's memory failed");
    return result;
  }

 private:
  /// The clock is read once per operation, as in perftest: a time runs from one post to the next.
  void post(uint32_t index, TimeNs now, TestResult& result) {
    started_[index] = now;
    if (operations_.post(std::span(&plan_[index], 1)) == 1) {
      ++in_flight_;
    } else {
      ++result.failed;
    }
  }

  Transport& transport_;
  OneSided& operations_;
  const TestOptions& options_;
  const std::atomic<bool>& stop_;
  const TscClock clock_;
  std::vector<OneSidedOperation> plan_;
  std::vector<TimeNs> started_;
  uint32_t in_flight_ = 0;
};

}  // namespace

absl::Status serve_memory(const Socket& control, const Place& place, const TestPlan& plan,
                          const std::atomic<bool>& stop) {
  if (plan.memory_bytes > kMemoryMax) return absl::InvalidArgumentError("the client wants more memory than 16 MiB");
  absl::StatusOr<Descriptor> client = receive_descriptor(control);
  if (!client.ok()) return client.status();
  absl::StatusOr<std::unique_ptr<Transport>> transport = place.source.make(place.lane, place.listen_host);
  if (!transport.ok()) return transport.status();
  absl::StatusOr<OneSided*> operations = one_sided_of(**transport, place.source.choice());
  if (!operations.ok()) return operations.status();
  const Region region(**transport, plan.memory_bytes);
  if (!region.status().ok()) return region.status();
  absl::StatusOr<MemoryName> name = (*operations)->open_region(region.bytes(), memory_rights::kAll);
  if (!name.ok()) return name.status();
  absl::StatusOr<PeerId> peer = (*transport)->resolve(*client);
  if (!peer.ok()) return peer.status();
  if (absl::Status status = send_reply(control, (*transport)->local_descriptor()); !status.ok()) return status;
  if (absl::Status status = send_memory(control, {name->address, name->key}); !status.ok()) {
    return status;
  }
  const SteadyClock clock;
  TimeNs next_look_ns = 0;
  while (!stop) {
    turn(**transport);
    (*transport)->wait(kLookForCloseEvery);
    if (clock.now_ns() < next_look_ns) continue;
    next_look_ns = clock.now_ns() + kLookForCloseEvery;
    if (control.peer() != Socket::Peer::kSilent) break;
  }
  (*operations)->close_region(name->key);
  (*operations)->sever(*peer);
  return absl::OkStatus();
}

absl::StatusOr<TestResult> run_memory_client(const Socket& control, const Place& place, const MemoryTest& test,
                                             const TestOptions& options, const std::atomic<bool>& stop) {
  absl::StatusOr<std::unique_ptr<Transport>> transport = place.source.make(place.lane, "");
  if (!transport.ok()) return transport.status();
  absl::StatusOr<OneSided*> operations = one_sided_of(**transport, place.source.choice());
  if (!operations.ok()) return operations.status();
  const bool atomic = test.kind == Kind::kFetchAdd;
  const uint32_t bytes = atomic ? kAtomicBytes : options.request_bytes;
  const Region local(**transport, size_t{(bytes + 63) / 64 * 64} * options.outstanding);
  if (!local.status().ok()) return local.status();
  absl::Status sent = send_plan(control, {.busy = options.busy, .memory_bytes = bytes});
  if (sent.ok()) sent = send_descriptor(control, (*transport)->local_descriptor());
  if (!sent.ok()) return sent;
  absl::StatusOr<Descriptor> server = receive_reply(control);
  if (!server.ok()) return server.status();
  absl::StatusOr<PerfMemory> memory = receive_memory(control);
  if (!memory.ok()) return memory.status();
  absl::StatusOr<PeerId> peer = (*transport)->resolve(*server);
  if (!peer.ok()) return peer.status();
  if (absl::Status status = wait_until_ready(**transport, **operations, *peer, stop); !status.ok()) return status;
  OneSidedOperation operation;
  operation.kind = test.kind;
  operation.peer = *peer;
  operation.local = local.bytes().first(bytes);
  operation.address = memory->address;
  operation.key = memory->key;
  operation.operand = 1;
  MemoryClient client(**transport, **operations, local.bytes(), operation, options, stop);
  client.run(options.warm_up_ns);
  if (stop) return stopped_early();
  TestResult result = client.run(options.duration_ns);
  (*operations)->sever(*peer);
  return result;
}

std::string memory_report(const MemoryTest& test, const TestOptions& options, const TestResult& result) {
  const Histogram& h = result.latency_ns;
  const auto us = [](double ns) { return ns / 1e3; };
  const uint32_t bytes = test.kind == Kind::kFetchAdd ? kAtomicBytes : options.request_bytes;
  if (test.bandwidth) {
    const double mib = static_cast<double>(bytes) * result.calls_per_second() / (1 << 20);
    return absl::StrFormat(" #bytes     #iterations    BW average[MB/sec]   MsgRate[Mpps]\n %-10u %-14u %-20.2f %.6f\n",
                           bytes, result.calls, mib, result.calls_per_second() / 1e6);
  }
  return absl::StrFormat(
      " #bytes  #iterations  t_min[usec]  t_max[usec]  t_typical[usec]  t_avg[usec]  99%% percentile[usec]  "
      "99.9%% percentile[usec]\n %-7u  %-11u  %-11.2f  %-11.2f  %-15.2f  %-11.2f  %-20.2f  %.2f\n",
      bytes, result.calls, us(static_cast<double>(h.min())), us(static_cast<double>(h.max())),
      us(static_cast<double>(h.percentile(50))), us(h.mean()), us(static_cast<double>(h.percentile(99))),
      us(static_cast<double>(h.percentile(99.9))));
}

}  // namespace skua::rpc::perf
