#include "kvstore/node/skuad_options.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "app/address.h"
#include "app/security_options.h"
#include "app/transport_options.h"
#include "app/value_text.h"
#include "kvstore/log/device.h"
#include "kvstore/node/disk_sizes.h"

namespace skua::kv {
namespace {

constexpr app::AddressRules kGrpcRules{.zero_port_allowed = true, .any_host_allowed = true};
constexpr app::AddressRules kDataRules{.name_allowed = false, .zero_port_allowed = true, .any_host_allowed = true};

std::optional<std::string> complain_about_zone(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; });
  return plain ? std::nullopt : std::optional<std::string>("must be one line of text");
}

std::optional<std::string> complain_about_segment(const std::string& text) {
  const auto bytes = app::parse_size(text);
  if (!bytes.ok() || *bytes == 0) return std::nullopt;  // the option itself reports text that is not a size
  if (*bytes >= int64_t{kLogSegmentBytesMin} && *bytes % int64_t{kPageBytes} == 0) return std::nullopt;
  return "must be 0, or a multiple of 4KiB and at least 1MiB";
}

void declare_storage(app::Program& program, SkuadOptions& options) {
  program.add_size("memory", &options.memory.node,
                   "Memory of the whole process, but for DPDK's. About half of it is for keys and values: what RocksDB "
                   "does not have yet, and what was used lately.");
  program.add_size("block-cache", &options.memory.cache,
                   "Of --memory, for RocksDB's blocks and unflushed writes. 0: three eighths, more while others leave "
                   "theirs.");
  program.add_size("write-buffer", &options.memory.memtables,
                   "Of --block-cache, at most three quarters: for unflushed writes. 0: half of it.");
  program.add_int("background-threads", &options.background_threads, "Flushes and compactions at a time.")
      .range(1, 64)
      .unit("threads");
  program.add_bool(
      "sync-writes", &options.sync_writes,
      "Sync each group of writes before it is acknowledged. Turning it off may lose the last acknowledged writes "
      "in a power failure; of replicated tables only in one that takes all members at once.");
  program
      .add_size("log-segment", &options.log_segment,
                "Size of the log's files; a multiple of 4 KiB, at least 1 MiB. A write takes at most half of one: from "
                "40 MiB on the largest values and batches fit. 0: 64 MiB, less on a disk below 2 GiB per worker.")
      .check(complain_about_segment);
  program.add_choice("log-io", &options.log_io,
                     {{"auto", LogIo::kAuto}, {"pwritev2", LogIo::kPwritev2}, {"io_uring", LogIo::kIoUring}},
                     "How the log is written. auto: past the page cache where the file system takes it, else as "
                     "pwritev2 does: through the page cache. io_uring: as auto, through a submission ring.");
  program.add_size("disk-reserve", &options.disk_reserve,
                   "Free space of the data directory's file system below which the node refuses writes other than "
                   "deletes; it needs it for its own work. 0: 512 MiB, at most a quarter of the disk.");
  program.add_size("copy-rate", &options.copy_rate,
                   "Bytes per second at which shards are copied from other nodes, together; two shards are copied at a "
                   "time, each with half of it. 0: 8 MiB for each processor, which leaves most of it to requests.");
  program
      .add_int("log-segments-max", &options.log_files.segments_max,
               "Files of one worker's log; writes are refused when all are in use.")
      .range(8, 4096)
      .unit("files");
}

void declare_transport(app::Program& program, SkuadOptions& options) {
  program.add_choice(
      "transport", &options.transport,
      {{name_of(TransportKind::kTcp), TransportKind::kTcp},
       {name_of(TransportKind::kDpdk), TransportKind::kDpdk},
       {name_of(TransportKind::kVerbs), TransportKind::kVerbs}},
      "What sessions run over. tcp: --data-address; dpdk: the --dpdk-* options; verbs: the --verbs-* options.");
  program.fold_options("DPDK, RDMA, congestion control, and clients of Redis and memcached", [&] {
    app::add_dpdk_options(program, &options.dpdk);
    app::add_verbs_options(program, &options.verbs);
    app::add_traffic_options(program, &options.traffic);
    gateway::declare_in_node(program, options.gateway);
  });
}

}  // namespace

void declare_security(app::Program& program, SkuadOptions& options) {
  app::add_security_options(program, &options.credentials);
  app::add_security_choice(program, &options.security);
  program
      .add_string(
          "join-token", &options.join_token,
          "For a node without a certificate: what skuactl cert join-token printed. The node makes its key, gets its "
          "certificate from the control plane, keeps both in its data directory and renews the certificate by "
          "itself. Later starts need no token.")
      .value_name("TOKEN")
      .secret();
  app::add_packets_option(program, &options.packets);
  app::add_packet_key_option(program, &options.packet_key_lifetime_ns);
}

void declare_examples(app::Program& program) {
  program.example("skuad --data-dir /var/lib/skua", "a node of the cluster whose control plane is on this machine");
  program.example("skuad --data-dir /var/lib/skua --control-address 10.0.0.1:7400 --join-token skua-join-AR...",
                  "a new node of a cluster with certificates");
  program.example("skuad --data-dir n1 --grpc-address 127.0.0.1:0 --data-address 127.0.0.1:0",
                  "one of several nodes on this machine");
  program.example(
      "skuad --data-dir /data --control-address control:7400 --grpc-address 0.0.0.0:7410 --data-address "
      "0.0.0.0:7420 --advertise-host node-1 --cert node-1.pem --key node-1.key --ca ca.pem",
      "a node in a container that others know as node-1");
  program.example("skuad --data-dir /var/lib/skua --resp-address 127.0.0.1:6379 --databases 0=cache",
                  "redis-cli on this machine reads and writes the table `cache`");
  program.example(
      "skuad --data-dir n1 --transport dpdk --dpdk-devices 0000:3b:00.0 --dpdk-addresses 10.1.0.7/16 --cert n1.pem "
      "--key n1.key --ca ca.pem",
      "sessions over a network card that DPDK drives");
  program.example("skuad --data-dir n1 --transport verbs --verbs-device mlx5_0 --cert n1.pem --key n1.key --ca ca.pem",
                  "sessions over an RDMA adapter");
}

void declare(app::Program& program, SkuadOptions& options) {
  program.add_string("data-dir", &options.data_dir, "Where the node keeps its identity and its data.")
      .value_name("DIR")
      .required();
  program
      .add_string("control-address", &options.control_address,
                  "The control plane; several addresses with commas between them.")
      .value_name("HOST:PORT")
      .addresses();
  declare_security(program, options);
  program
      .add_string("grpc-address", &options.grpc_address,
                  "Where to listen for bootstrap and admin requests; port 0 takes a free one.")
      .value_name("HOST:PORT")
      .address(kGrpcRules);
  program
      .add_string("data-address", &options.data_address,
                  "Where worker 0 listens for sessions, as a numeric address; worker i listens on the i-th port "
                  "after it, or, with port 0, on a free one.")
      .value_name("IP:PORT")
      .address(kDataRules);
  program
      .add_string(
          "advertise-host", &options.advertise_host,
          "What others are told to dial instead of the hosts in the addresses above: an address, or a name that "
          "they all resolve. For sessions over TCP the node itself resolves it, when it starts.")
      .value_name("HOST")
      .host();
  program
      .add_string("zone", &options.zone, "What fails together, such as a rack: replicas of a shard avoid sharing one.")
      .check(complain_about_zone);
  program
      .add_duration("yield-timeout", &options.yield_timeout,
                    "A node that is asked to stop has other nodes lead its shards first, for so long at most. 0: it "
                    "stops at once, and clients wait until another member leads.")
      .range(0, 3600 * kSecond);
  app::add_http_options(program, &options.http);
  program.add_int("workers", &options.workers, "Polling threads.").range(1, 256).unit("threads");
  program.add_choice("polling", &options.polling, {{"adaptive", Polling::kAdaptive}, {"busy", Polling::kBusy}},
                     "adaptive: spin for a while, then sleep until traffic comes. busy: never sleep.");
  program.add_duration("spin", &options.spin,
                       "How long adaptive polling spins after the last work, while that mostly pays.");
  declare_transport(program, options);
  program.add_int("reader-threads", &options.reader_threads, "Reads and scans that wait for the disk at a time.")
      .range(1, 256)
      .unit("threads");
  program
      .add_int("sessions-max", &options.sessions_max,
               "Sessions of one worker. A quarter of them is kept for other nodes.")
      .range(1, 65536)
      .unit("sessions");
  program.add_size("message-memory", &options.memory.messages,
                   "Of --memory, for messages of one worker that are under way. 0: an eighth, divided by --workers.");
  declare_storage(program, options);
  program.add_bool("check-config", &options.check_config, "Check the configuration and end.").flag_only();
  app::add_log_options(program, &options.log);
  declare_examples(program);
}

Listening listening_of(const SkuadOptions& options) {
  const auto numeric = [](const std::string& host) { return host == "localhost" ? std::string("127.0.0.1") : host; };
  const app::Address grpc = app::parse_address(options.grpc_address, kGrpcRules).value_or(app::Address{});
  Listening out{.grpc_host = numeric(grpc.host), .grpc_port = grpc.port, .workers = options.workers};
  if (options.transport == TransportKind::kTcp) {
    const app::Address data = app::parse_address(options.data_address, kDataRules).value_or(app::Address{});
    out.data_host = numeric(data.host);
    out.data_port = data.port;
  }
  out.advertise_host = options.advertise_host;
  if (out.advertise_host.starts_with('['))
    out.advertise_host = out.advertise_host.substr(1, out.advertise_host.size() - 2);
  return out;
}

std::vector<control::Entrance> entrances_of(const SkuadOptions& options) {
  const Listening listening = listening_of(options);
  std::vector<control::Entrance> entrances = {
      {absl::StrCat("--grpc-address ", options.grpc_address), control::is_loopback(listening.grpc_host)}};
  switch (options.transport) {
    case TransportKind::kTcp:
      entrances.push_back(
          {absl::StrCat("--data-address ", options.data_address), control::is_loopback(listening.data_host)});
      break;
    case TransportKind::kDpdk:
      entrances.push_back({absl::StrCat("--dpdk-devices ", options.dpdk.devices), options.dpdk.is_local()});
      break;
    // Everybody on the adapter's network can reach it.
    case TransportKind::kVerbs: entrances.push_back({"--transport verbs", false}); break;
  }
  return entrances;
}

}  // namespace skua::kv
