// Which threads are inside a driver right now, so that no memory is unmapped under them.
//
// memif's control socket belongs to a thread of the EAL. When the peer closes it, that thread marks the device as not connected and
// unmaps the rings, whether or not a polling thread is reading them at the time: one that is put aside in the middle of a burst
// comes back to a segmentation fault. DPDK has no hook between the two steps, but the second goes through munmap(), which this
// folder defines for the whole program:
//
//   polling thread            mark odd | burst | mark even    | burst sees "not connected"
//   thread of the EAL            connected = false | munmap(): barrier, wait for odd marks to move | unmap
//
// A burst that begins after the barrier sees the first step; one that began before is waited for. Polling threads pay two plain
// stores per burst: the barrier is membarrier(2), on the other side.
#ifndef SKUA_RPC_TRANSPORT_DPDK_DRIVER_CALLS_H_
#define SKUA_RPC_TRANSPORT_DPDK_DRIVER_CALLS_H_

#include <atomic>
#include <cstdint>

namespace skua::rpc::dpdk {

namespace internal {
/// Odd while its thread is inside a driver.
inline thread_local constinit std::atomic<uint64_t> driver_mark{0};
}  // namespace internal

/// From now on the calling thread is waited for. Call before its first DriverCall; again does no harm.
void watch_driver_calls();

/// In scope around each burst. Thread: one that called watch_driver_calls().
class DriverCall {
 public:
  DriverCall() : before_(internal::driver_mark.load(std::memory_order_relaxed)) {
    internal::driver_mark.store(before_ + 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~DriverCall() { internal::driver_mark.store(before_ + 2, std::memory_order_release); }
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;

 private:
  const uint64_t before_;
};

/// Returns when every call that any thread was in has ended; calls that begin meanwhile are not waited for. Thread: any that is
/// not in a call.
void wait_for_driver_calls();

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_DRIVER_CALLS_H_
