// Short time slices, for a thread that works for tens of microseconds between two sleeps while others wait for its
// work.
//
// Linux gives every thread the same time slice, some milliseconds. A thread that wakes up waits until the thread that
// runs on its processor has used up its slice. A thread that asks for shorter slices (Linux 6.12) gets the processor at
// once. In total it gets no more time, so it needs no privilege.
#ifndef SKUA_RPC_BASE_SHORT_SLICES_H_
#define SKUA_RPC_BASE_SHORT_SLICES_H_

namespace skua {

/// Asks for slices of 100 us for the calling thread. Also lets its timed waits end on time instead of up to 50 us late.
/// A thread with a scheduling policy of its own (chrt) keeps it. If the kernel does not support this, nothing changes.
void ask_for_short_slices();

}  // namespace skua

#endif  // SKUA_RPC_BASE_SHORT_SLICES_H_
