#include "kvstore/node/node_state.h"

#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

constexpr uint64_t kFormatVersion = 1;

constexpr char kName[] = "state";

/// Parses the next line "<name> = <number>" and removes it from `text`. Empty: `text` does not begin with such a line.
std::optional<uint64_t> take_number(std::string_view& text, std::string_view name) {
  const std::string prefix = std::string(name) + " = ";
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() + text.size() || *parsed.ptr != '\n') return std::nullopt;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()) + 1);
  return value;
}

}  // namespace

std::string format_state(const NodeState& state) {
  std::string text = absl::StrCat("# Written by skuad. Do not edit.\nformat_version = ", kFormatVersion,
                                  "\nincarnation = ", state.incarnation, "\nmap_revision = ", state.map_revision, "\n");
  if (state.storage_incarnation != 1) {
    absl::StrAppend(&text, "storage_incarnation = ", state.storage_incarnation, "\n");
  }
  return text;
}

absl::StatusOr<NodeState> parse_state(std::string_view text) {
  if (text.starts_with("#")) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const auto version = take_number(text, "format_version");
  if (version && *version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("it has format ", *version, ", this build reads format ",
                                                      kFormatVersion, ": run the newer version of skuad"));
  }
  const auto incarnation = take_number(text, "incarnation");
  const auto revision = take_number(text, "map_revision");
  const auto storage = text.empty() ? std::optional<uint64_t>(1) : take_number(text, "storage_incarnation");
  if (!version || !incarnation || !revision || !storage || *storage == 0 || !text.empty()) {
    return absl::DataLossError("it cannot be understood: restore it from a backup of the data directory");
  }
  return NodeState{*incarnation, *revision, *storage};
}

absl::StatusOr<NodeState> read_state(const DurableFiles& files) {
  return read_decoded(files, kName, parse_state);
}

absl::Status write_state(const DurableFiles& files, const NodeState& state) {
  return files.replace(kName, format_state(state));
}

}  // namespace skua::kv
