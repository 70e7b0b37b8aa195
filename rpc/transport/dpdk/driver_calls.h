// Driver calls: which threads are inside a driver right now, so that no memory is unmapped while a driver reads it.
//
// A thread of the EAL serves memif's control socket. When the peer closes the socket, that thread marks the device as
// not connected and unmaps the rings, even while a polling thread is reading them. A polling thread that was
// descheduled in the middle of a burst would then get a segmentation fault. DPDK has no hook between the two steps. But
// the second step calls munmap(), which this folder defines for the whole program:
//
//   polling thread            mark odd | burst | mark even    | burst sees "not connected"
//   thread of the EAL            connected = false | munmap(): barrier, wait for odd marks to move | unmap
//
// In a shared object that a program loads (kvstore/c/plugins), the C library's munmap() is found first. There the
// drivers' calls are led to this one: their entries for it, in the tables of the dynamic linker, are overwritten.
//
// A burst that begins after the barrier sees the first step. A burst that began earlier is waited for. A polling thread
// pays only two plain stores per burst, because the barrier (membarrier(2)) runs on the unmapping side.
#ifndef SKUA_RPC_TRANSPORT_DPDK_DRIVER_CALLS_H_
#define SKUA_RPC_TRANSPORT_DPDK_DRIVER_CALLS_H_

#include <atomic>
#include <cstdint>

namespace skua::rpc::dpdk {

namespace internal {
/// Odd while the thread is inside a driver.
inline thread_local constinit std::atomic<uint64_t> driver_mark{0};
}  // namespace internal

/// From now on wait_for_driver_calls() waits for calls of this thread. Call before the thread's first DriverCall;
/// repeated calls do no harm.
void watch_driver_calls();

/// Lives for the duration of each burst. Thread: one that called watch_driver_calls().
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

/// Returns when every driver call that was running at the time has ended. Does not wait for calls that begin meanwhile.
/// Thread: any that is not in a driver call.
void wait_for_driver_calls();

/// Makes the drivers that are loaded call this folder's munmap(). Does nothing where they do so already. Call after the
/// EAL has loaded them, before a port is started.
void lead_munmap_of_drivers_here();

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_DRIVER_CALLS_H_
