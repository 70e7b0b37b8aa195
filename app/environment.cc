#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "app/config_internal.h"
#include "rpc/base/nearest_name.h"

namespace skua::app {

namespace {

constexpr char kPrefix[] = "SKUA_";

// Nearer than this to an option of this program, an unknown variable is taken for a misspelled one.
constexpr size_t kMisspelledMax = 2;

// What the other programs and the scripts take, without the prefix, so that one environment may serve all of them. A
// name that ends with _ stands for all that begin so: the options of a command. tests/app/programs_test.py holds it
// against the programs.
constexpr const char* kFamily[] = {"ADD_",
                                   "ADVERTISE_ADDRESS",
                                   "ADVERTISE_HOST",
                                   "ALLOW_FLUSH",
                                   "APPEND_",
                                   "ATOMIC_BW_",
                                   "ATOMIC_LAT_",
                                   "AUDIT_",
                                   "AUDIT_LOG",
                                   "AUTHENTICATION_TIMEOUT",
                                   "AUTHORITY",
                                   "BACKGROUND_THREADS",
                                   "BANDWIDTH_",
                                   "BATCH_",
                                   "BIN_DIR",
                                   "BLOCK_CACHE",
                                   "CA",
                                   "CERT",
                                   "CERTIFICATE_TTL",
                                   "CERT_",
                                   "CHECK_",
                                   "CLIENT_TLS_CA",
                                   "CLIENT_TLS_CERT",
                                   "CLIENT_TLS_KEY",
                                   "CLUSTER_ID",
                                   "CLUSTER_NAME",
                                   "CONFIG",
                                   "CONFORMANCE_",
                                   "CONGESTION",
                                   "CONNECTIONS_MAX",
                                   "CONTROL_ADDRESS",
                                   "COPY_RATE",
                                   "COUNT_",
                                   "DATABASES",
                                   "DATA_ADDRESS",
                                   "DATA_DIR",
                                   "DEL_",
                                   "DISK_RESERVE",
                                   "DOCTOR_",
                                   "DPDK_",
                                   "ETCD_CA",
                                   "ETCD_CERT",
                                   "ETCD_KEY",
                                   "EXPIRE_",
                                   "EXPORT_",
                                   "FUZZ_",
                                   "GATEWAY_CONNECTIONS_MAX",
                                   "GATEWAY_THREADS",
                                   "GET_",
                                   "GRANT_",
                                   "GRPC_ADDRESS",
                                   "HASH_PASSWORD",
                                   "HEARTBEAT_INTERVAL",
                                   "HOST_ROOT",
                                   "HTTP_ADDRESS",
                                   "HTTP_SECURITY",
                                   "IMPORT_",
                                   "JOIN_ADDRESS",
                                   "JOIN_TOKEN",
                                   "KEY",
                                   "LATENCY_",
                                   "LINK_GIGABITS_PER_S",
                                   "LISTEN_ADDRESS",
                                   "LOG_FORMAT",
                                   "LOG_IO",
                                   "LOG_LEVEL",
                                   "LOG_SEGMENT",
                                   "LOG_SEGMENTS_MAX",
                                   "MEMCACHED_ADDRESS",
                                   "MEMCACHED_DATABASE",
                                   "MEMORY",
                                   "MESSAGE_MEMORY",
                                   "METADATA",
                                   "NODE_",
                                   "OUTPUT",
                                   "PACKETS",
                                   "PACKET_KEY_LIFETIME",
                                   "PATH_DELAY",
                                   "PLUGIN_DIR",
                                   "POLLING",
                                   "PUT_",
                                   "QUEUE_TARGET",
                                   "QUOTA_",
                                   "RATE_",
                                   "RAW_",
                                   "RAW_KEYS",
                                   "READER_THREADS",
                                   "READ_BW_",
                                   "READ_LAT_",
                                   "RECEIVE_BUDGET",
                                   "RENEW_CERTIFICATE",
                                   "REPLACED_AUTHORITY",
                                   "REPLACE_AFTER",
                                   "RESP_ADDRESS",
                                   "SCAN_",
                                   "SECURITY",
                                   "SERVER_",
                                   "SESSIONS_MAX",
                                   "SHARD_",
                                   "SHELL_",
                                   "SPIN",
                                   "STATUS_",
                                   "STORE_",
                                   "SUSPECT_AFTER",
                                   "SYNC_WRITES",
                                   "TABLE_",
                                   "THREADS",
                                   "TIMEOUT",
                                   "TRANSPORT",
                                   "USERS_FILE",
                                   "VERBS_",
                                   "WATCHES_PER_HOST",
                                   "WORKERS",
                                   "WRITE_BUFFER",
                                   "WRITE_BW_",
                                   "WRITE_LAT_",
                                   "YIELD_TIMEOUT",
                                   "ZONE"};

bool begins_with_one_of(const std::string& name, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

/// The option of this program that `name` may be a misspelling of.
std::optional<std::string> meant_option(const std::string& name, const std::vector<std::string>& known) {
  std::optional<std::string> near = nearest_name(name, known, kMisspelledMax);
  if (near && edit_distance(name, *near) > kMisspelledMax) return std::nullopt;
  return near;
}

/// `name` is another program's. `own`: the prefixes of this program's commands, whose options are known here. `known`:
/// all options of this program.
bool is_foreign(const std::string& name, const std::vector<std::string>& own, const std::vector<std::string>& known) {
  bool begins_as_foreign = false;
  for (const std::string family : kFamily) {
    if (name == family) return true;
    if (family.back() == '_') begins_as_foreign |= absl::StartsWith(name, family) && !begins_with_one_of(name, own);
  }
  // A prefix says little: options of this program may begin so, too.
  return begins_as_foreign && !meant_option(name, known);
}

/// What Kubernetes and Docker set for a service that is called skua: SKUA_SERVICE_HOST, SKUA_PORT_7400_TCP.
bool is_of_a_service(const std::string& name, const std::string& value) {
  if (absl::StartsWith(value, "tcp://") || absl::StartsWith(value, "udp://")) return true;
  if (absl::StrContains(name, "SERVICE_HOST") || absl::StrContains(name, "SERVICE_PORT")) return true;
  const size_t port = name.find("PORT_");
  return port != std::string::npos && port + 5 < name.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(name[port + 5]));
}

/// Files of variables are taken as they are by Docker and systemd, quotes and all.
absl::Status check_ends(const std::string& value) {
  if (value.empty()) return absl::OkStatus();
  if (value.back() == '\r') return absl::InvalidArgumentError("ends with a carriage return: remove it from the file");
  const char first = value.front();
  if (value.size() < 2 || (first != '"' && first != '\'') || value.back() != first) return absl::OkStatus();
  // The value may be a secret.
  return absl::InvalidArgumentError("has quotes in its value: leave them out");
}

absl::Status check_unknown(const std::string& name, const std::vector<std::string>& known,
                           std::vector<std::string>& warnings) {
  if (const std::optional<std::string> near = meant_option(name, known)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown environment variable ", kPrefix, name, "; did you mean ", kPrefix, *near, "?"));
  }
  std::vector<std::string> all = known;
  for (const std::string family : kFamily) {
    if (family.back() != '_') all.push_back(family);
  }
  const std::optional<std::string> near = nearest_name(name, all);
  warnings.push_back(absl::StrCat("the environment variable ", kPrefix, name,
                                  " is ignored: no program of Skua takes it",
                                  near ? absl::StrCat("; did you mean ", kPrefix, *near, "?") : ""));
  return absl::OkStatus();
}

}  // namespace

absl::Status apply_environment(const Command& root, const Environment& environment,
                               std::vector<std::string>& warnings) {
  constexpr size_t kPrefixBytes = sizeof kPrefix - 1;
  std::map<std::string, Option*> options;
  std::vector<std::string> known;
  std::vector<std::string> own;
  for_each_command(root, [&](const Command& command) {
    if (command.state().parent == &root)
      own.push_back(absl::StrCat(absl::AsciiStrToUpper(absl::StrReplaceAll(command.state().name, {{"-", "_"}})), "_"));
    for (const auto& option : command.state().options) {
      if (option->state().flag_only) continue;
      const std::string name = environment_name(option->state());
      options[name] = option.get();
      known.push_back(name.substr(kPrefixBytes));
    }
  });
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, kPrefix)) continue;
    const auto found = options.find(name);
    if (found == options.end()) {
      const std::string rest = name.substr(kPrefixBytes);
      if (rest.empty() || is_foreign(rest, own, known) || is_of_a_service(rest, value)) continue;
      if (absl::Status status = check_unknown(rest, known, warnings); !status.ok()) return status;
      continue;
    }
    OptionState& option = found->second->state();
    const std::vector<std::string> texts =
        option.type == OptionType::kList ? split_list(value) : std::vector<std::string>{value};
    absl::Status status = check_ends(value);
    if (status.ok()) status = assign(option, texts, Origin::kEnvironment, name);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment variable ", name, " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace skua::app
