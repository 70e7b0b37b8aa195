// Output of skuactl: text for users, one JSON object per answer for programs, errors as one line on stderr.
#ifndef SKUA_KVSTORE_CTL_OUTPUT_H_
#define SKUA_KVSTORE_CTL_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "app/signals.h"
#include "control/security/credentials.h"
#include "kvstore/client/dpdk.h"
#include "kvstore/client/verbs.h"
#include "rpc/base/clock.h"
#include "rpc/transport/sealed/packet_protection.h"

namespace skua::kv::ctl {

inline constexpr char kProgram[] = "skuactl";

enum class TransportKind : uint8_t { kTcp, kDpdk, kVerbs };

/// The options that every command has.
struct Globals {
  std::string control_address = "127.0.0.1:7400";
  control::CredentialFiles credential_files;
  rpc::PacketProtection packets = rpc::PacketProtection::kDefault;
  DurationNs timeout_ns = 5 * kSecond;
  bool json = false;
  /// Keys on the command line are taken as they are, without the escapes of key_text.h.
  bool raw_keys = false;
  TransportKind transport = TransportKind::kTcp;
  rpc::DpdkSettings dpdk = dpdk_client_settings();
  rpc::VerbsSettings verbs;
};

/// What globals.credential_files say; null: none were given. Ends the program with a usage error if they cannot be
/// used.
[[nodiscard]] control::CredentialsPtr credentials_of(const Globals& globals);

/// Prints `skuactl: message` as one line on stderr.
void print_error(std::string_view message);

/// Prints `skuactl: TEXT` on stderr, whatever its length, after what was printed on stdout.
void print_notice(const std::string& text);

/// The status with words before and behind its message. OK stays OK.
absl::Status with_words(std::string_view before, const absl::Status& status, std::string_view behind = "");

/// Prints `skuactl: message` and ends the program with a usage error (app/exit.h).
[[noreturn]] void fail_usage(std::string_view message);

/// Ends the program with a usage error, `prefix` and the message, unless the status is OK.
void must_be_valid(const absl::Status& status, const std::string& prefix = "");

/// The value; without one, ends the program in the same way.
template <typename T>
T must_be_valid(absl::StatusOr<T> result, const std::string& prefix = "") {
  must_be_valid(result.status(), prefix);
  return *std::move(result);
}

/// Prints `skuactl: CODE: message` on stderr and returns the exit code 1.
int report_failure(const absl::Status& status);

/// report_failure() for a change of the cluster. If the change may have been made although the call failed, the message
/// says so, and names `look`, a command that shows whether it was made.
int report_change_failure(const absl::Status& status, const std::string& look);

/// Reports the failure and ends the program with the exit code 1 unless the status is OK. Static objects
/// are not destroyed, because threads of gRPC may still use them. Not to be called while there is a client of the
/// nodes: its destructor has to run.
void must(const absl::Status& status);

/// The value; without one, ends the program in the same way.
template <typename T>
T must(absl::StatusOr<T> result) {
  must(result.status());
  return *std::move(result);
}

/// must() for a change of the cluster; `look`: as for report_change_failure().
void must_change(const absl::Status& status, const std::string& look);

template <typename T>
T must_change(absl::StatusOr<T> result, const std::string& look) {
  must_change(result.status(), look);
  return *std::move(result);
}

/// The content of the file that --file names; `-`: of standard input. Ends the program with a usage error if it cannot
/// be read, or is larger than a message may be.
std::string read_input(const std::string& path);

/// Catches Ctrl-C for a command that waits, so that the command can say what it no longer waits for. Null if `wait_ns`
/// is 0. Must be called before there are other threads (gRPC starts some). Ends the program if that cannot be done.
std::unique_ptr<app::StopSignal> stop_signal_of_wait(DurationNs wait_ns);

void print_json(const nlohmann::json& json, int indent = 2);

/// Prints a command's answer: `json` with --output json, otherwise `text`, which has its line breaks. Returns the exit
/// code 0.
int answer(const Globals& globals, const nlohmann::json& json, const std::string& text);

/// Asks the user to confirm. True if `yes`, or if the user types `answer` after the text `warning`. Ends the program
/// with a usage error if standard input is not a terminal. Callers check first that the objects named by the warning
/// exist, so that nobody confirms a change that cannot be made.
bool confirmed(bool yes, const std::string& warning, const std::string& answer);

/// The array of what `to_json` makes of each item.
template <typename Items, typename ToJson>
nlohmann::json json_list(const Items& items, const ToJson& to_json) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

/// Sets two members of `object`. `name`: the bytes if they are UTF-8, otherwise their base64. `encoding_name`: which of
/// the two, "utf-8" or "base64".
void set_text(nlohmann::json& object, const char* name, const char* encoding_name, std::string_view bytes);

/// The cells of a table; the first row is the heading.
using TableRows = std::vector<std::vector<std::string>>;

/// A table as text, with its columns aligned by blanks. Cells are made printable, and
/// cut.
std::string table(TableRows rows);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_OUTPUT_H_
