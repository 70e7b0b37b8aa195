// Output of skuactl: text for users, one JSON object per answer for programs, errors as one line on stderr.
#ifndef SKUA_KVSTORE_CTL_OUTPUT_H_
#define SKUA_KVSTORE_CTL_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
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

/// Prints `skuactl: CODE: message` on stderr and returns the exit code 1.
int report_failure(const absl::Status& status);

/// report_failure() for a change of the cluster. If the change may have been made although the call failed, the message
/// says so, and names `look`, a command that shows whether it was made.
int report_change_failure(const absl::Status& status, const std::string& look);

/// The content of the file that --file names; `-`: of standard input. Ends the program with a usage error if it cannot
/// be read, or is larger than a message may be.
std::string read_input(const std::string& path);

/// Catches Ctrl-C for a command that waits, so that the command can say what it no longer waits for. Null if `wait_ns`
/// is 0. Must be called before there are other threads (gRPC starts some).
absl::StatusOr<std::unique_ptr<app::StopSignal>> stop_signal_of_wait(DurationNs wait_ns);

void print_json(const nlohmann::json& json, int indent = 2);

/// Prints a command's answer: `json` with --output json, otherwise `text`, which has its line breaks. Returns the exit
/// code 0.
int answer(const Globals& globals, const nlohmann::json& json, const std::string& text);

/// Asks the user to confirm. True if `yes`, or if the user types `answer` after the text `warning`. Ends the program
/// with a usage error if standard input is not a terminal. Callers check first that the objects named by the warning
/// exist, so that nobody confirms a change that cannot be made.
bool confirmed(bool yes, const std::string& warning, const std::string& answer);

/// Sets two members of `object`. `name`: the bytes if they are UTF-8, otherwise their base64. `encoding_name`: which of
/// the two, "utf-8" or "base64".
void set_text(nlohmann::json& object, const char* name, const char* encoding_name, std::string_view bytes);

/// A table as text, with its columns aligned by blanks. The first row is the heading. Cells are made printable, and
/// cut.
std::string table(std::vector<std::vector<std::string>> rows);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_OUTPUT_H_
