#include "examples/remote_memory/tally_keeper.h"

namespace skua::examples {

TallyKeeper::TallyKeeper(rpc::Transport& transport, const Clock& clock)
    : endpoint_(transport, clock, {}), host_(endpoint_, {}) {
  // Who is gone has no regions.
  endpoint_.on_session_event([this](const rpc::SessionEvent& event) { host_.on_session_event(event); });
}

absl::StatusOr<std::unique_ptr<TallyKeeper>> TallyKeeper::create(rpc::Transport& transport, const Clock& clock,
                                                                 std::span<const std::string> names) {
  if (absl::Status status = check_names(names); !status.ok()) return status;
  std::unique_ptr<TallyKeeper> out(new TallyKeeper(transport, clock));
  // No right to write: names stay as they are, and counts only grow by what is added.
  absl::StatusOr<uint64_t> key =
      out->host_.publish(kTableName, names.size() * kRowBytes, rpc::remote_rights::kRead | rpc::remote_rights::kAtomic);
  if (!key.ok()) return key.status();
  out->key_ = *key;
  write_table(names, out->host_.local(*key));
  return out;
}

}  // namespace skua::examples
