// Somebody who reads the table and counts in it.
//
//    READ the whole table --> find the row by its name --> FETCH_ADD its count, several in flight
//
// With an adapter that has such operations the keeper's processor does not notice; without one they are calls to its
// endpoint.
#ifndef SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_USER_H_
#define SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_USER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/remote_memory/tally_table.h"
#include "rpc/endpoint.h"
#include "rpc/remote_memory.h"

namespace skua::examples {

/// Each function returns when what it does is done. Thread: one.
class TallyUser {
 public:
  struct Added {
    uint64_t done = 0;
    /// They may have been done or not, because the connection was lost under them: an atomic is never done again by
    /// itself.
    uint64_t unknown = 0;
    /// Why the first one that was not done was not.
    absl::Status failure;
    /// What the last one found.
    uint64_t previous = 0;
  };

  /// `transport` and `clock` outlive it. `wait` runs one turn: poll_or_wait() of this endpoint, and of others in the
  /// same thread.
  TallyUser(rpc::Transport& transport, const Clock& clock, std::function<void(rpc::Endpoint&)> wait);
  ~TallyUser();

  /// Connects to the keeper and opens its table.
  absl::Status open(const rpc::Descriptor& keeper);
  absl::StatusOr<std::vector<TallyRow>> read();
  /// Adds one `times` times. NOT_FOUND: there is no row of that name.
  absl::StatusOr<Added> add(const std::string& name, uint64_t times);
  [[nodiscard]] const rpc::RemoteMemory::Counters& counters() const { return memory_.counters(); }

 private:
  void until(const std::function<bool()>& done);
  absl::Status renew_in_time();

  static constexpr DurationNs kLease = 30 * kSecond;
  static constexpr uint32_t kInFlightMax = 32;

  const std::function<void(rpc::Endpoint&)> wait_;
  rpc::RemoteMemory::Options options_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  rpc::RemoteMemory memory_;
  rpc::SessionId session_;
  rpc::RemoteRegion table_;
};

}  // namespace skua::examples

#endif  // SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_USER_H_
