// The process that has the table. It publishes the memory and looks at it when it likes: no code of its own runs when
// others read or count.
#ifndef SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_KEEPER_H_
#define SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_KEEPER_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/remote_memory/tally_table.h"
#include "rpc/endpoint.h"
#include "rpc/remote_memory.h"

namespace skua::examples {

/// Thread: one.
class TallyKeeper {
 public:
  /// `transport` and `clock` outlive it. INVALID_ARGUMENT: check_names(); RESOURCE_EXHAUSTED: more names than memory.
  static absl::StatusOr<std::unique_ptr<TallyKeeper>> create(rpc::Transport& transport, const Clock& clock,
                                                             std::span<const std::string> names);

  /// What users connect to.
  [[nodiscard]] rpc::Descriptor descriptor() const { return endpoint_.local_descriptor(); }
  [[nodiscard]] rpc::Endpoint& endpoint() { return endpoint_; }
  /// As it is now. Counts that an adapter is changing this moment are seen before or after.
  [[nodiscard]] std::vector<TallyRow> table() const { return read_table(host_.local(key_)); }
  [[nodiscard]] const rpc::RemoteMemoryHost::Counters& counters() const { return host_.counters(); }

 private:
  TallyKeeper(rpc::Transport& transport, const Clock& clock);

  rpc::Endpoint endpoint_;
  rpc::RemoteMemoryHost host_;
  uint64_t key_ = 0;
};

}  // namespace skua::examples

#endif  // SKUA_EXAMPLES_REMOTE_MEMORY_TALLY_KEEPER_H_
