#include "kvstore/storage/shard_db.h"

namespace skua::kv {

absl::StatusOr<KeyRange> key_range_of(const ScanRequest& request) {
  KeyRange range{.start = request.start_key, .end = request.end_key};
  if (request.resume_token.empty()) return range;
  const auto after = decode_resume_token(request.resume_token);
  if (!after.ok()) return after.status();
  if (*after >= range.start) {
    range.start = *after;
    range.start_exclusive = true;
  }
  return range;
}

absl::Status ShardDb::checkpoint(const std::string& path) {
  return absl::UnimplementedError("this kind of database makes no checkpoint at " + path);
}

}  // namespace skua::kv
