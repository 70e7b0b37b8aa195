#include "kvstore/gateway/gateway_options.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/security_options.h"
#include "app/version.h"
#include "control/security/exposure.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

constexpr app::AddressRules kListenRules{.zero_port_allowed = true, .any_host_allowed = true, .empty_allowed = true};
/// Numbers of databases. Clients know few beyond 15.
constexpr uint32_t kDatabaseMax = 9999;

/// An option that says where to listen.
struct ListenOption {
  std::string_view name;
  std::string address;
  ClientProtocol protocol;
};

/// Those that are given.
std::vector<ListenOption> listen_options(const ProgramOptions& options) {
  std::vector<ListenOption> out;
  if (!options.listen_address.empty()) {
    out.push_back({options.listen_option, options.listen_address, ClientProtocol::kResp});
  }
  if (!options.memcached_address.empty()) {
    out.push_back({"--memcached-address", options.memcached_address, ClientProtocol::kMemcached});
  }
  return out;
}

bool is_open_to_others(const ListenOption& option) {
  const absl::StatusOr<app::Address> address = app::parse_address(option.address, kListenRules);
  return address.ok() && !control::is_loopback(address->host);
}

bool has_tls(const ProgramOptions& options) {
  return !options.client_security.tls.certificate.empty();
}

/// Nobody reads what clients say, and whoever connects must show who he is.
bool are_clients_encrypted_and_known(const ProgramOptions& options) {
  return has_tls(options) &&
         (!options.client_security.users.empty() || !options.client_security.tls.authorities.empty());
}

/// What --client-tls-* say together.
absl::Status check_tls_files(const TlsFiles& files) {
  if (files.empty() || (!files.certificate.empty() && !files.key.empty())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--client-tls-cert and --client-tls-key go together, and --client-tls-ca needs both of them");
}

/// `option` is open to others, and clients are not encrypted and known.
absl::Status check_open_address(const ListenOption& option, const ProgramOptions& options) {
  const std::string reached =
      absl::StrCat(absl_view(option.name), " ", option.address, " can be reached from other machines, ");
  if (!options.client_security.users.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(reached,
                     "and passwords would go there in plain: give --client-tls-cert and --client-tls-key, or "
                     "listen on 127.0.0.1"));
  }
  if (options.allows_everybody) return absl::OkStatus();
  const std::string_view missing = has_tls(options)
                                       ? "--users-file, or --client-tls-ca"
                                       : "--client-tls-cert and --client-tls-key, with --users-file or --client-tls-ca";
  return absl::InvalidArgumentError(absl::StrCat(reached, "and whoever does is let in: give ", absl_view(missing),
                                                 ", so that clients are encrypted and known; or listen on 127.0.0.1, "
                                                 "or allow it with --security off-unsafe"));
}

absl::Status check_addresses(const ProgramOptions& options) {
  const std::vector<ListenOption> given = listen_options(options);
  if (given.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("give ", absl_view(options.listen_option),
                                                   ", for clients of Redis, or --memcached-address, or both"));
  }
  for (const ListenOption& option : given) {
    if (!is_open_to_others(option) || are_clients_encrypted_and_known(options)) continue;
    if (absl::Status status = check_open_address(option, options); !status.ok()) return status;
  }
  return absl::OkStatus();
}

/// `databases` has at least one.
absl::StatusOr<std::vector<EntranceOptions>> entrances_of(const ProgramOptions& options,
                                                          const std::map<uint32_t, std::string>& databases) {
  std::vector<EntranceOptions> out;
  const uint32_t first = databases.begin()->first;
  const uint32_t memcached = options.memcached_database < 0 ? first : static_cast<uint32_t>(options.memcached_database);
  if (!databases.contains(memcached)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memcached-database is ", memcached, ", which --databases does not name"));
  }
  for (const ListenOption& option : listen_options(options)) {
    const absl::StatusOr<app::Address> address = app::parse_address(option.address, kListenRules);
    if (!address.ok()) return address.status();
    const uint32_t database = option.protocol == ClientProtocol::kMemcached ? memcached : first;
    out.push_back({.protocol = option.protocol, .host = address->host, .port = address->port, .database = database});
  }
  return out;
}

absl::StatusOr<std::map<uint32_t, std::string>> parse_databases(const std::vector<std::string>& words) {
  std::map<uint32_t, std::string> databases;
  std::set<std::string> tables;
  for (const std::string& word : words) {
    const size_t sign = word.find('=');
    uint32_t number = 0;
    const char* const digits_end = word.data() + std::min(sign, word.size());
    const auto [end, error] = std::from_chars(word.data(), digits_end, number);
    const bool is_pair = sign != std::string::npos && error == std::errc() && end == digits_end &&
                         number <= kDatabaseMax && sign + 1 < word.size();
    if (!is_pair) {
      return absl::InvalidArgumentError(absl::StrCat("--databases must be NUMBER=TABLE, with a number from 0 to ",
                                                     kDatabaseMax, ", such as 0=cache, not ", word));
    }
    if (!databases.emplace(number, word.substr(sign + 1)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--databases names database ", number, " twice"));
    }
    // The commands of a connection are put in order per database and key: two databases of one table have no order.
    if (!tables.insert(word.substr(sign + 1)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--databases names table ", word.substr(sign + 1), " twice; each table has one number"));
    }
  }
  if (databases.empty()) {
    return absl::InvalidArgumentError(
        "--databases must name at least one table, such as 0=cache; tables are made with skuactl table create");
  }
  return databases;
}

void add_client_security_options(app::Program& program, ClientSecurityFiles& files) {
  const auto add_file = [&program](const char* name, std::string* path, const char* help) {
    program.add_string(name, path, help).value_name("FILE");
  };
  add_file("client-tls-cert", &files.tls.certificate,
           "The certificate that clients are shown, in PEM, with those that issued it. Clients speak TLS then, at "
           "all addresses. Files are read again when they change.");
  add_file("client-tls-key", &files.tls.key, "The private key of --client-tls-cert, in PEM.");
  add_file("client-tls-ca", &files.tls.authorities,
           "The authorities of clients, in PEM: whoever connects must show a certificate of one of them.");
  add_file("users-file", &files.users,
           "The users, their passwords and rights (docs/gateway.md): whoever connects must authenticate. It is "
           "read again when it changes.");
}

/// `name`: of the option that says where Redis's clients connect.
void add_entrance_options(app::Program& program, ProgramOptions& options, const char* name) {
  program
      .add_string(
          name, &options.listen_address,
          "Where Redis's clients connect; port 0 takes a free one, and an empty address none. One that other machines "
          "reach needs clients that are encrypted and known: --client-tls-cert, and --users-file or --client-tls-ca.")
      .value_name("HOST:PORT")
      .address(kListenRules);
  program
      .add_string("memcached-address", &options.memcached_address,
                  "Where memcached's clients connect, with the text protocol; usually port 11211. Empty: nowhere.")
      .value_name("HOST:PORT")
      .address(kListenRules);
  program
      .add_int("memcached-database", &options.memcached_database,
               "The number of the table that memcached's clients see; -1: the lowest of --databases.")
      .range(-1, kDatabaseMax);
  program
      .add_list("databases", &options.tables,
                "The tables that clients see, by the numbers of SELECT: 0=cache,1=users. A client begins with the "
                "lowest number. The tables must exist (skuactl table create).")
      .value_name("NUMBER=TABLE");
  program.add_bool("allow-flush", &options.allows_flush,
                   "FLUSHALL, FLUSHDB and memcached's flush_all remove the keys of tables. For tests and caches: every "
                   "client may empty every table of --databases.");
  add_client_security_options(program, options.client_security);
  program
      .add_duration("authentication-timeout", &options.authentication_timeout_ns,
                    "How long clients may take to authenticate, if there is a users file, before they are cut off.")
      .range(kSecond, 3600 * kSecond);
}

void add_connections_option(app::Program& program, ProgramOptions& options, const char* connections) {
  program
      .add_int(connections, &options.connections_max,
               "Connections of clients of Redis and memcached, of all threads together; further clients get an error.")
      .range(1, 1'000'000)
      .unit("connections");
}

}  // namespace

void declare_in_node(app::Program& program, ProgramOptions& options) {
  options.listen_address.clear();
  options.listen_option = "--resp-address";
  add_entrance_options(program, options, "resp-address");
  options.threads = 0;
  program
      .add_int("gateway-threads", &options.threads,
               "Threads that serve clients of Redis and memcached; each has connections of its own. 0: the threads of "
               "the workers serve them, each beside its shards. This is the fastest way, if the clients of this node "
               "do not need more processors than it has workers. A command that works for long (KEYS, EXEC of large "
               "values) then holds up its worker for up to a tenth of a second. Such workers do not spin (--spin).")
      .range(0, 64)
      .unit("threads");
  add_connections_option(program, options, "gateway-connections-max");
}

void declare(app::Program& program, ProgramOptions& options) {
  program
      .add_string("control-address", &options.client.control_address,
                  "Where the control plane listens; several with commas.")
      .value_name("HOST:PORT")
      .addresses();
  add_entrance_options(program, options, "listen-address");
  program
      .add_int("threads", &options.threads,
               "Threads that serve clients of Redis and memcached; each has connections of its own.")
      .range(1, 64)
      .unit("threads");
  add_connections_option(program, options, "connections-max");
  program.add_duration("timeout", &options.timeout_ns, "How long the cluster may take for each operation of a command.")
      .range(kMillisecond, 3600 * kSecond);
  program.add_bool("hash-password", &options.hashes_password,
                   "Read a password from standard input, print its hash for --users-file, and end.");
  program.add_choice<bool>(
      "security", &options.allows_everybody, {{"auto", false}, {"off-unsafe", true}},
      "auto: listens on loopback only, unless clients are encrypted and known. off-unsafe: on any address: whoever "
      "reaches it may read, change and delete all that the tables have.");
  app::add_http_options(program, &options.http);
  app::add_security_options(program, &options.client.credentials);
  program.add_bool("renew-certificate", &options.renews_certificate,
                   "Have the certificate of --cert renewed by the control plane at half of its time. For one that came "
                   "from there (skuactl cert join); its file and that of --ca are replaced.");
  app::add_packets_option(program, &options.client.packets);
  app::add_packet_key_option(program, &options.packet_key_lifetime_ns);
  app::add_log_options(program, &options.log);
  program.example("skua-gateway --databases 0=cache", "redis-cli on this machine reads and writes the table `cache`");
  program.example("skua-gateway --databases 0=cache,1=users --threads 4", "two tables, on four threads");
  program.example("skua-gateway --databases 0=cache --memcached-address 127.0.0.1:11211",
                  "clients of memcached as well, in the same table");
  program.example(
      "skua-gateway --databases 0=cache --control-address 10.0.0.1:7400 --cert gw.pem --key gw.key --ca ca.pem",
      "a cluster whose programs show certificates");
  program.example(
      "skua-gateway --databases 0=cache --listen-address 10.0.0.9:6379 --client-tls-cert gw.pem --client-tls-key "
      "gw.key "
      "--users-file users",
      "for other machines: clients speak TLS and authenticate");
}

std::string exposure_warning(const ProgramOptions& options) {
  std::string open;
  for (const ListenOption& option : listen_options(options)) {
    if (is_open_to_others(option) && !are_clients_encrypted_and_known(options))
      absl::StrAppend(&open, open.empty() ? "" : " or ", absl_view(option.name), " ", option.address);
  }
  if (open.empty()) return {};
  return absl::StrCat("security is off: whoever reaches ", open,
                      " may read, change and delete all that these tables have (--security off-unsafe)");
}

ReportFn reporter_to(const app::Logger& logger) {
  return [logger](bool is_trouble, std::string_view what, std::string_view about, std::string_view details) {
    const app::LogLevel level = is_trouble ? app::LogLevel::kWarning : app::LogLevel::kInfo;
    logger.log(level, what, {{"about", about}, {"details", details}});
  };
}

absl::StatusOr<GatewayOptions> gateway_options(const ProgramOptions& options) {
  if (absl::Status status = check_tls_files(options.client_security.tls); !status.ok()) return status;
  if (absl::Status status = check_addresses(options); !status.ok()) return status;
  if (absl::Status http = app::check_http(options.http); !http.ok()) return http;
  if (options.renews_certificate && options.client.credentials.empty()) {
    return absl::InvalidArgumentError("--renew-certificate needs a certificate: give --cert, --key and --ca");
  }
  absl::StatusOr<std::map<uint32_t, std::string>> databases = parse_databases(options.tables);
  if (!databases.ok()) return databases.status();
  absl::StatusOr<std::vector<EntranceOptions>> entrances = entrances_of(options, *databases);
  if (!entrances.ok()) return entrances.status();
  GatewayOptions out = static_cast<const GatewayOptions&>(options);
  out.entrances = *std::move(entrances);
  out.databases = *std::move(databases);
  out.skua_version = app::version();
  out.authentication_timeout =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(options.authentication_timeout_ns));
  out.client.packet_key_lifetime = std::chrono::nanoseconds(options.packet_key_lifetime_ns);
  out.client.timeout = std::chrono::nanoseconds(options.timeout_ns);
  // A connection may have a thousand commands on their way, and there are many connections.
  out.client.operations_max = 65'536;
  return out;
}

}  // namespace skua::kv::gateway
