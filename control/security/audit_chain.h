// The lines of an audit log, each of which names the one before it by its hash: pure, no file and no clock.
//
//     {"seq":2,"time":"2026-11-27T02:39:20.123Z","event":"call","who":"admin/ada",...,"prev":"55..","hash":"a1.."}
//     {"seq":3,"time":"2026-11-27T02:40:02.770Z","event":"call","who":"admin/ada",...,"prev":"a1..","hash":"0c.."}
//
// `hash` is the SHA-256 of the line without its member `hash`, byte for byte as it stands there. `prev`, the hash of
// the line before, is among these bytes: who changes, removes or inserts a line has to write all later ones anew. Who
// can do that, or cuts lines off at the end, is found only by a hash that was noted elsewhere.
//
// The first line of each file is an event "begin". So it shows if lines are missing at the beginning of a file.
#ifndef SKUA_CONTROL_SECURITY_AUDIT_CHAIN_H_
#define SKUA_CONTROL_SECURITY_AUDIT_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::control {

/// Since the epoch, UTC.
using WallMillis = int64_t;

/// Of each text in a line, before it is escaped for JSON; the rest is cut.
inline constexpr size_t kAuditTextMax = 256;
/// A longer line is none of an audit log.
inline constexpr size_t kAuditLineMax = 32 << 10;
inline constexpr const char* kAuditBegin = "begin";
/// A field of "begin": which of a log's chains the file is of. The chain of changes has no name.
inline constexpr const char* kAuditChainField = "chain";
inline constexpr const char* kAuditRefusals = "refusals";

using AuditValue = std::variant<std::string, uint64_t, bool>;
using AuditFields = std::vector<std::pair<std::string, AuditValue>>;

struct AuditEntry {
  std::string event;
  /// Names are ours, and none of seq, time, event, arguments, prev and hash. Texts may be a peer's: they are escaped.
  AuditFields fields{};
  /// Of a call; left out if there are none.
  AuditFields arguments{};
};

/// The end of a chain: what the next line hangs on.
struct AuditHead {
  uint64_t sequence = 0;                    ///< of the last line; 0: there is none yet
  std::string hash = std::string(64, '0');  ///< of the last line, in hex

  friend bool operator==(const AuditHead&, const AuditHead&) = default;
};

/// In hex, of a line without its member `hash`.
[[nodiscard]] std::string audit_hash(std::string_view bytes);

/// The line after `head`, without a line end; `head` becomes that line.
[[nodiscard]] std::string encode_audit_line(const AuditEntry& entry, WallMillis now, AuditHead& head);

struct AuditLine {
  AuditHead self;
  std::string prev;
  std::string time;
  std::string event;
  /// All others, in their order, as text; those of `arguments` with that word and a dot before their names.
  std::vector<std::pair<std::string, std::string>> fields;
};

/// `line` has no line end. DATA_LOSS: it is not a line as encode_audit_line() writes them, or its hash is not its own.
[[nodiscard]] absl::StatusOr<AuditLine> parse_audit_line(std::string_view line);

/// Follows a chain from its first line on. A chain may begin anywhere, because old files are removed.
class AuditVerifier {
 public:
  /// The next line, without its line end. DATA_LOSS says what is wrong with it or before it; then the chain is over.
  [[nodiscard]] absl::Status take(std::string_view line);
  /// What comes next is the first line of another file.
  void next_file() { file_begins_ = true; }

  [[nodiscard]] const AuditHead& head() const { return head_; }
  /// Nothing before a first line.
  [[nodiscard]] const std::optional<AuditLine>& first() const { return first_; }
  [[nodiscard]] const std::string& last_time() const { return last_time_; }

 private:
  AuditHead head_;
  std::optional<AuditLine> first_;
  std::string last_time_;
  bool file_begins_ = true;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_AUDIT_CHAIN_H_
