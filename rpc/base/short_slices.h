// A thread that works for tens of microseconds between two sleeps, while others wait for what it does.
//
// Linux gives every thread the same time slice, some milliseconds; one that wakes waits until whoever computes on its
// processor has used up its own. A thread that asks for shorter slices (Linux 6.12) gets the processor at once, and no more of
// it in all: no privilege is needed.
#ifndef SKUA_RPC_BASE_SHORT_SLICES_H_
#define SKUA_RPC_BASE_SHORT_SLICES_H_

namespace skua {

/// Asks for slices of 100 us for the calling thread, and lets its timed waits end on time instead of up to 50 us later. A
/// thread that has a scheduling policy of its own (chrt) keeps it; where the kernel does not do it, nothing changes.
void ask_for_short_slices();

}  // namespace skua

#endif  // SKUA_RPC_BASE_SHORT_SLICES_H_
