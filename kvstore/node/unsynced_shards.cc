#include "kvstore/node/unsynced_shards.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/node/node_state.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/rng.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

constexpr char kName[] = "unsynced";
constexpr std::string_view kHead = "# Written by skuad. Do not edit.\nformat_version = ";
constexpr uint64_t kFormatVersion = 1;

std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(parsed.ptr - text.data());
  const bool padded = text.starts_with('0');
  if (parsed.ec != std::errc() || padded || length == text.size() || text[length] != '\n') return std::nullopt;
  text.remove_prefix(length + 1);
  return value;
}

/// A number, for a doubt after a failed sync, that differs from the current boot's.
uint64_t doubt_of_failure(uint64_t boot) {
  const uint64_t number = mix64(boot);
  return number == 0 || number == boot ? boot ^ 2 : number;
}

absl::Status damaged() {
  return absl::DataLossError(
      "it cannot be understood: restore it from a backup of the data directory, or give the node an empty one and let "
      "it copy its shards from the others");
}

}  // namespace

absl::StatusOr<uint64_t> boot_number() {
  constexpr char kPath[] = "/proc/sys/kernel/random/boot_id";
  std::ifstream file(kPath);
  std::string id;
  if (!std::getline(file, id) || id.empty()) {
    return absl::UnavailableError(absl::StrCat(kPath, " cannot be read: is /proc mounted?"));
  }
  uint64_t number = 1;
  for (const char c : id) number = mix64(number ^ static_cast<unsigned char>(c));
  return number == 0 ? 1 : number;
}

std::string UnsyncedShards::format(const Boots& boots) {
  std::string text = absl::StrCat(absl_view(kHead), kFormatVersion, "\n");
  for (const auto& [id, boot] : boots) absl::StrAppend(&text, files::shard_name(id), " = ", boot, "\n");
  return text;
}

absl::StatusOr<UnsyncedShards::Boots> UnsyncedShards::parse(std::string_view text) {
  if (!text.starts_with(kHead)) return damaged();
  text.remove_prefix(kHead.size());
  const auto version = take_number(text);
  if (version && *version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("it has format ", *version, ", this build reads format ",
                                                      kFormatVersion, ": run the newer version of skuad"));
  }
  if (!version) return damaged();
  Boots boots;
  while (!text.empty()) {
    const size_t name_end = text.find(" = ");
    if (name_end == std::string_view::npos) return damaged();
    const auto id = files::parse_shard_name(std::string(text.substr(0, name_end)));
    text.remove_prefix(name_end + 3);
    const auto boot = take_number(text);
    if (!id || !boot || *boot == 0 || !boots.emplace(*id, *boot).second) return damaged();
  }
  return boots;
}

absl::StatusOr<UnsyncedShards> UnsyncedShards::read(const DurableFiles& files, uint64_t boot) {
  auto boots = read_decoded(files, kName, parse);
  if (!boots.ok()) return boots.status();
  return UnsyncedShards(files, boot, *std::move(boots));
}

uint64_t UnsyncedShards::doubt(ShardId id) const {
  const auto found = boots_.find(id);
  return found == boots_.end() || found->second == boot_ ? 0 : found->second;
}

bool UnsyncedShards::is_allowed(ShardId id) const {
  const auto found = boots_.find(id);
  return found != boots_.end() && found->second == boot_;
}

absl::Status UnsyncedShards::allow(const std::set<ShardId>& ids) {
  Boots next = boots_;
  for (const ShardId id : ids) next.try_emplace(id, boot_);
  return write(std::move(next));
}

absl::Status UnsyncedShards::forget(const std::set<ShardId>& ids) {
  Boots next = boots_;
  for (const ShardId id : ids) next.erase(id);
  return write(std::move(next));
}

absl::Status UnsyncedShards::put_in_doubt(const std::set<ShardId>& ids) {
  Boots next = boots_;
  for (const ShardId id : ids) {
    if (is_allowed(id)) next[id] = doubt_of_failure(boot_);
  }
  return write(std::move(next));
}

absl::Status UnsyncedShards::end_in_doubt() {
  Boots next = boots_;
  for (auto& [id, boot] : next) {
    if (boot == boot_) boot = doubt_of_failure(boot_);
  }
  return write(std::move(next));
}

absl::Status UnsyncedShards::end_in_order() {
  Boots next = boots_;
  std::erase_if(next, [this](const auto& entry) { return entry.second == boot_; });
  return write(std::move(next));
}

absl::Status UnsyncedShards::write(Boots next) {
  if (next == boots_) return absl::OkStatus();
  if (absl::Status written = files_->replace(kName, format(next)); !written.ok()) return written;
  boots_ = std::move(next);
  return absl::OkStatus();
}

}  // namespace skua::kv
