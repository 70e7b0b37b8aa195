// How skuactl speaks: text for people, one JSON object per answer for programs, errors as one line on stderr.
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
#include "kvstore/client/dpdk.h"
#include "kvstore/client/verbs.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {

inline constexpr char kProgram[] = "skuactl";

enum class TransportKind : uint8_t { kTcp, kDpdk, kVerbs };

/// The options that every command has.
struct Globals {
  std::string control_address = "127.0.0.1:7400";
  DurationNs timeout_ns = 5 * kSecond;
  bool json = false;
  /// Keys are taken as they are, not as key_text.h has them.
  bool raw_keys = false;
  TransportKind transport = TransportKind::kTcp;
  rpc::DpdkSettings dpdk = dpdk_client_settings();
  rpc::VerbsSettings verbs;
};

/// Prints `skuactl: CODE: message` on stderr and returns the exit code 1.
int report_failure(const absl::Status& status);

/// The same for a change of the cluster: if no answer came, and the change may have been done all the same, it says so and
/// that `look` tells (a command).
int report_change_failure(const absl::Status& status, const std::string& look);

/// What --file names; `-`: standard input. Ends the program with a usage error if it cannot be read, or is larger than a
/// message can be.
std::string read_input(const std::string& path);

/// For a command that waits, so that it can say on Ctrl-C what it no longer waits for; null if `wait_ns` is 0. Call it
/// before there are threads, of gRPC.
absl::StatusOr<std::unique_ptr<app::StopSignal>> stop_signal_of_wait(DurationNs wait_ns);

void print_json(const nlohmann::json& json, int indent = 2);

/// True if `yes`, or if the user types `answer` after `warning`. Ends the program with a usage error if nobody can
/// be asked. Look up what the warning names first: nobody wants to confirm what cannot be done.
bool confirmed(bool yes, const std::string& warning, const std::string& answer);

/// A value for JSON: as text if it is UTF-8, otherwise base64, with `encoding` saying which.
struct JsonText {
  std::string text;
  std::string_view encoding;  // "utf-8" or "base64"
};
JsonText json_text(std::string_view bytes);

/// Columns aligned by blanks; the first row is the heading. Cells are made printable, and cut.
std::string table(std::vector<std::vector<std::string>> rows);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_OUTPUT_H_
