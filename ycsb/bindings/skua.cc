#include "ycsb/bindings/skua.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kvstore/client/admin.h"
#include "kvstore/client/async_client.h"
#include "kvstore/client/dpdk.h"
#include "kvstore/client/verbs.h"
#include "rpc/base/clock.h"
#include "rpc/base/nearest_name.h"
#include "rpc/base/status.h"
#include "ycsb/core/row_format.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

constexpr uint64_t kScanLengthMax = kv::kScanLimitMax;
constexpr uint64_t kDpdkThreadsMax = 256;

Status status_of(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return Status::kOk;
    case absl::StatusCode::kNotFound: return Status::kNotFound;
    case absl::StatusCode::kDeadlineExceeded: return Status::kTimeout;
    case absl::StatusCode::kInvalidArgument: return Status::kBadRequest;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists: return Status::kUnexpectedState;
    case absl::StatusCode::kPermissionDenied: return Status::kForbidden;
    case absl::StatusCode::kUnimplemented: return Status::kNotImplemented;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted: return Status::kServiceUnavailable;
    default: return Status::kError;
  }
}

class SkuaSession final : public BindingSession {
 public:
  SkuaSession(std::unique_ptr<kv::AsyncClient> client, const Schema& schema, kv::Durability durability,
              const SessionOptions& options)
      : client_(std::move(client)),
        schema_(schema),
        durability_(durability),
        return_fields_(options.return_fields),
        slots_(options.in_flight_max) {
    for (Slot& slot : slots_) free_.push_back(&slot);
  }

  ~SkuaSession() override {
    closing_ = true;
    client_.reset();
  }

  void submit(const Operation& op, CompletionFn done) override;

  absl::Status poll(DurationNs timeout) override {
    client_->poll(std::chrono::nanoseconds(timeout));
    return absl::OkStatus();
  }

 private:
  /// One operation in flight; the client's callbacks capture nothing else, so they need no memory of their own.
  struct Slot {
    const Operation* op = nullptr;
    CompletionFn done;
  };

  absl::Status start(Slot& slot);
  void encode_row(const Operation& op);
  void finish_read(Slot& slot, const kv::GetResult& result);
  void finish(Slot& slot, const kv::Outcome& outcome, OpResult result = OpResult());
  bool pick_fields(const Operation& op, std::string_view row);

  std::unique_ptr<kv::AsyncClient> client_;
  const Schema& schema_;
  const kv::Durability durability_;
  const bool return_fields_;
  bool closing_ = false;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::string row_;
  std::vector<kv::FieldUpdate> updates_;
  std::vector<NamedValue> fields_;
};

void SkuaSession::submit(const Operation& op, CompletionFn done) {
  Slot& slot = *free_.back();
  free_.pop_back();
  slot.op = &op;
  slot.done = done;
  if (absl::Status refused = start(slot); !refused.ok()) {
    kv::Outcome outcome;
    outcome.status = std::move(refused);
    finish(slot, outcome);
  }
}

absl::Status SkuaSession::start(Slot& slot) {
  const Operation& op = *slot.op;
  const auto on_write = [this, &slot](kv::WriteResult&& result) { finish(slot, result); };
  switch (op.kind) {
    case OpKind::kRead:
      return client_->get(schema_.table, op.key, {},
                          [this, &slot](kv::GetResult&& result) { finish_read(slot, result); });
    case OpKind::kInsert:
      encode_row(op);
      return client_->put(schema_.table, op.key, std::string_view(row_), {.durability = durability_}, on_write);
    case OpKind::kUpdate:
      updates_.clear();
      for (const FieldWrite& write : op.writes()) updates_.push_back({schema_.field_names[write.field], write.value});
      return client_->patch(schema_.table, op.key, updates_, {.durability = durability_}, on_write);
    case OpKind::kDelete: return client_->remove(schema_.table, op.key, {.durability = durability_}, on_write);
    case OpKind::kScan: {
      kv::ScanRange range;
      range.start = op.key;
      range.limit = static_cast<uint32_t>(std::clamp<uint64_t>(op.scan_length, 1, kScanLengthMax));
      return client_->scan(schema_.table, range, {}, [this, &slot](kv::ScanResult&& result) {
        OpResult counted;
        counted.row_count = result.rows.size();
        finish(slot, result, counted);
      });
    }
    case OpKind::kReadModifyWrite: break;
  }
  return absl::UnimplementedError("the driver splits a read-modify-write before it reaches a binding");
}

void SkuaSession::encode_row(const Operation& op) {
  row_.clear();
  for (const FieldWrite& write : op.writes()) append_row_field(row_, schema_.field_names[write.field], write.value);
}

/// The record's fields that the operation asks for, in fields_. False if the value is no row.
bool SkuaSession::pick_fields(const Operation& op, std::string_view row) {
  if (!decode_row(as_byte_span(row), fields_)) return false;
  if (op.all_fields) return true;
  std::erase_if(fields_, [&](const NamedValue& field) {
    return std::none_of(op.fields.begin(), op.fields.end(),
                        [&](uint32_t wanted) { return schema_.field_names[wanted] == field.name; });
  });
  return true;
}

void SkuaSession::finish_read(Slot& slot, const kv::GetResult& result) {
  OpResult read;
  if (result.ok()) {
    if (!pick_fields(*slot.op, result.value.bytes())) {
      read.status = Status::kUnexpectedState;
      read.message = "the value is not a row; was the table loaded by this driver?";
    } else if (return_fields_) {
      read.fields = fields_;
    }
  }
  finish(slot, result, read);
}

void SkuaSession::finish(Slot& slot, const kv::Outcome& outcome, OpResult result) {
  if (!outcome.ok()) {
    result.status = status_of(outcome.status);
    result.message = std_view(outcome.status.message());
  }
  const CompletionFn done = slot.done;
  free_.push_back(&slot);
  if (!closing_) done(result);
}

/// Asks the control plane once, which fails at once where nobody is; the client goes on trying for as long as
/// operations may take. Errors: as skuactl has them; NOT_FOUND with the nearest name, and without any table with the
/// cluster's troubles, which may say why there is none.
absl::Status find_table(const kv::ClientOptions& options, const std::string& table) {
  kv::Admin admin(options.control_address, std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout),
                  options.credentials);
  const absl::StatusOr<std::vector<kv::TableInfo>> tables = admin.list_tables();
  if (!tables.ok()) return tables.status();
  std::vector<std::string> names;
  for (const kv::TableInfo& there : *tables) names.push_back(there.name);
  if (std::find(names.begin(), names.end(), table) != names.end()) return absl::OkStatus();
  const std::optional<std::string> near = nearest_name(table, names);
  std::string troubles;
  if (tables->empty()) {
    const absl::StatusOr<std::vector<std::string>> told = admin.troubles();
    if (told.ok()) {
      for (const std::string& trouble : *told) troubles += concat(". TROUBLE: ", trouble);
    }
  }
  return absl::NotFoundError(concat("there is no table ", table,
                                    near ? concat("; did you mean -p table=", *near, "? Else make it") : "; make it",
                                    ": skuactl table create ", table, troubles));
}

class SkuaBinding final : public Binding {
 public:
  SkuaBinding(const BindingContext& context, kv::ClientOptions options, std::string_view transport,
              kv::Durability durability)
      : schema_(context.schema), options_(std::move(options)), transport_(transport), durability_(durability) {}

  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& session) override {
    std::call_once(asked_, [this] { found_ = find_table(options_, schema_.table); });
    if (!found_.ok()) return found_;
    kv::ClientOptions options = options_;
    options.operations_max = static_cast<uint32_t>(std::clamp<size_t>(session.in_flight_max, 1, 65'536));
    options.seed = session.seed;
    absl::StatusOr<std::unique_ptr<kv::AsyncClient>> client = kv::AsyncClient::create(std::move(options));
    if (!client.ok()) return client.status();
    // Finding the cluster and opening sessions is not what is measured; a wrong address or table ends the run here.
    if (absl::Status status = (*client)->warm_up(schema_.table, options_.timeout); !status.ok()) return status;
    return std::make_unique<SkuaSession>(*std::move(client), schema_, durability_, session);
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    return {{"Store", "skua, control plane " + options_.control_address},
            {"Transport", std::string(transport_)},
            {"Durability", durability_name(durability_)}};
  }

 private:
  const Schema& schema_;
  const kv::ClientOptions options_;
  const std::string_view transport_;
  const kv::Durability durability_;
  std::once_flag asked_;
  absl::Status found_;
};

rpc::TrafficSettings read_traffic(PropertyReader& in) {
  rpc::TrafficSettings out;
  constexpr std::array kPolicies = {rpc::CongestionControl::kSwift, rpc::CongestionControl::kTimely,
                                    rpc::CongestionControl::kNone};
  constexpr uint64_t kDelayMaxUs = rpc::TrafficSettings::kDelayMax / kMicrosecond;
  auto microseconds = [&](std::string_view name, DurationNs otherwise) {
    const auto otherwise_us = static_cast<uint64_t>(otherwise / kMicrosecond);
    return static_cast<DurationNs>(in.whole(name, otherwise_us, 1, kDelayMaxUs)) * kMicrosecond;
  };
  out.congestion = kPolicies.at(in.choice("skua.congestion", "swift", {"swift", "timely", "none"}));
  out.queue_target_ns = microseconds("skua.queue_target_us", out.queue_target_ns);
  out.link_gigabits_per_s =
      static_cast<uint32_t>(in.whole("skua.link_gigabits_per_s", 0, 0, rpc::TrafficSettings::kLinkGigabitsMax));
  out.path_delay_ns = microseconds("skua.path_delay_us", out.path_delay_ns);
  out.receive_budget_bytes = in.whole("skua.receive_budget_bytes", 0, 0, SIZE_MAX);
  return out;
}

/// dpdk-udp-port, as other programs call it, is the property skua.dpdk.udp_port.
std::string property_of(std::string_view option) {
  std::string name(option);
  std::replace(name.begin(), name.end(), '-', '_');
  if (const size_t first = name.find('_'); first != std::string::npos) name[first] = '.';
  return "skua." + name;
}

/// Reads each setting from the property of its name.
auto declare_in(PropertyReader& in) {
  return [&in](const char* option, auto* target, const char* /*help*/) {
    using Value = std::remove_pointer_t<decltype(target)>;
    const std::string name = property_of(option);
    if constexpr (std::is_same_v<Value, std::string>) {
      *target = in.text(name, *target);
    } else if constexpr (std::is_same_v<Value, bool>) {
      *target = in.flag(name, *target);
    } else if constexpr (std::is_signed_v<Value>) {
      const std::string text = in.text(name, absl::StrCat(*target));
      if (!absl::SimpleAtoi(text, target)) in.fail(absl::StrCat(name, " must be a whole number, not \"", text, "\""));
    } else {
      *target = static_cast<Value>(in.whole(name, *target, 0, std::numeric_limits<Value>::max()));
    }
  };
}

/// A client for each driver thread, all on the same devices. What DPDK lacks is for people to mend.
absl::StatusOr<kv::TransportMaker> make_dpdk(PropertyReader& in) {
  rpc::DpdkSettings settings = kv::dpdk_client_settings();
  declare_dpdk_settings(settings, declare_in(in));
  const uint64_t threads = in.whole("threadcount", 1, 1, kDpdkThreadsMax);
  if (!in.status().ok()) return in.status();
  absl::StatusOr<kv::TransportMaker> maker = kv::dpdk_transports(settings, static_cast<uint16_t>(threads));
  if (!maker.ok()) return absl::InvalidArgumentError(maker.status().message());
  return maker;
}

/// Likewise on an RDMA device.
absl::StatusOr<kv::TransportMaker> make_verbs(PropertyReader& in) {
  rpc::VerbsSettings settings;
  declare_verbs_settings(settings, declare_in(in));
  if (!in.status().ok()) return in.status();
  absl::StatusOr<kv::TransportMaker> maker = kv::verbs_transports(settings);
  if (!maker.ok()) return absl::InvalidArgumentError(maker.status().message());
  return maker;
}

absl::StatusOr<std::unique_ptr<Binding>> make_skua(const BindingContext& context) {
  PropertyReader in(context.properties);
  kv::ClientOptions options;
  options.control_address = in.text("skua.control", "127.0.0.1:7400");
  options.credentials = {in.text("skua.cert", ""), in.text("skua.key", ""), in.text("skua.ca", "")};
  using rpc::PacketProtection;
  constexpr std::array kPackets = {PacketProtection::kDefault, PacketProtection::kOff, PacketProtection::kAuthenticate,
                                   PacketProtection::kEncrypt};
  options.packets = kPackets.at(in.choice("skua.packets", "default", {"default", "off", "authenticate", "encrypt"}));
  options.packet_key_lifetime =
      std::chrono::seconds(in.whole("skua.packet_key_lifetime_s", 3600, 1, 24 * 3600, "seconds"));
  options.timeout = std::chrono::milliseconds(in.whole("skua.timeout", 10'000, 1, 3'600'000, "milliseconds"));
  // Driver threads that spin while they wait take the processor from a server on the same machine.
  options.spin = std::chrono::microseconds(in.whole("skua.spin", 0, 0, 1'000'000, "microseconds"));
  options.traffic = read_traffic(in);
  constexpr std::array kDurabilities = {kv::Durability::kDefault, kv::Durability::kMemory, kv::Durability::kFlush,
                                        kv::Durability::kSync};
  const kv::Durability durability =
      kDurabilities.at(in.choice("skua.durability", "default", {"default", "memory", "flush", "sync"}));
  using MakeTransports = absl::StatusOr<kv::TransportMaker> (*)(PropertyReader&);
  constexpr std::array<std::pair<std::string_view, MakeTransports>, 3> kTransports = {
      {{"tcp", nullptr}, {"dpdk", &make_dpdk}, {"verbs", &make_verbs}}};
  const auto& [transport, make_transports] =
      kTransports.at(in.choice("skua.transport", "tcp", {"tcp", "dpdk", "verbs"}));
  if (absl::Status status = in.status(); !status.ok()) return status;
  if (absl::Status status = kv::check_options(options); !status.ok()) return status;
  if (make_transports != nullptr) {
    absl::StatusOr<kv::TransportMaker> maker = make_transports(in);
    if (!maker.ok()) return maker.status();
    options.make_transport = *std::move(maker);
  }
  return std::make_unique<SkuaBinding>(context, std::move(options), transport, durability);
}

/// Of the transports that are not used: a run over TCP must not be taken for one over a network card.
std::vector<std::string> doubts(const Properties& properties) {
  std::vector<std::string> out;
  const std::string_view transport = properties.find("skua.transport").value_or("tcp");
  for (const auto& [name, value] : properties.all()) {
    for (const std::string_view other : {"dpdk", "verbs"}) {
      if (other == transport || !name.starts_with(concat("skua.", other, "."))) continue;
      out.push_back(concat("property ", name, " has no effect with skua.transport=", transport));
    }
  }
  return out;
}

constexpr std::array<std::array<std::string_view, 3>, 30> kProperties = {{
    {"skua.control", "127.0.0.1:7400", "address of the control plane; several with commas"},
    {"skua.cert", "", "this program's certificate; with it skua.key and skua.ca: without them no TLS"},
    {"skua.key", "", "its private key"},
    {"skua.ca", "", "certificates of the authorities that are believed"},
    {"skua.packets", "default (encrypt with a certificate)",
     "how packets are protected: off, authenticate or encrypt; the nodes' --packets"},
    {"skua.packet_key_lifetime_s", "3600", "how long the driver protects its packets with one key, in seconds"},
    {"skua.timeout", "10000", "per operation, in milliseconds"},
    {"skua.spin", "0", "how long a waiting thread spins before it sleeps, in microseconds"},
    {"skua.durability", "default", "what a write waits for: memory, flush or sync; default: what the nodes are set to"},
    {"skua.transport", "tcp", "what requests travel by: tcp, dpdk or verbs, as the nodes' --transport"},
    {"skua.congestion", "swift",
     "what keeps a thread's packets from filling the network: swift, timely or none (not over tcp)"},
    {"skua.queue_target_us", "100", "queueing delay that swift allows, in microseconds"},
    {"skua.link_gigabits_per_s", "0 (not given)", "speed of this machine's link; receive budget and credits follow"},
    {"skua.path_delay_us", "20", "round trip that the link is to be kept busy over, in microseconds"},
    {"skua.receive_budget_bytes", "0 (link x delay)", "response bytes under way to a thread at a time"},
    {"skua.dpdk.devices", "", "PCI addresses or vdevs, separated by ';'"},
    {"skua.dpdk.addresses", "", "their addresses, as 10.77.0.254/24, separated by ';'"},
    {"skua.dpdk.gateway_macs", "", "the router's MAC for each, separated by ';'"},
    {"skua.dpdk.udp_port", "0 (drawn)", "of the first thread; the others have those after it"},
    {"skua.dpdk.queues", "0 (by device)", "queue pairs of each device"},
    {"skua.dpdk.mtu", "0 (the most)", "bytes of an IP packet"},
    {"skua.dpdk.mbufs", "16383", "packet buffers of the process"},
    {"skua.dpdk.huge_pages", "true", "packet buffers in huge pages, or in plain memory"},
    {"skua.dpdk.eal", "", "more arguments for DPDK's EAL"},
    {"skua.verbs.device", "", "RDMA device, port of one, or IP address that one has; empty: the first active port"},
    {"skua.verbs.gid_index", "-1 (the best)", "entry of the port's GID table"},
    {"skua.verbs.mtu", "0 (the port's)", "bytes of an RDMA packet"},
    {"skua.verbs.traffic_class", "0", "DSCP and ECN bits of packets"},
    {"skua.verbs.receive_packets", "512", "packet buffers that each thread keeps posted"},
    {"skua.verbs.send_packets", "256", "packets that each thread may have under way"},
}};

constexpr std::array<std::array<std::string_view, 2>, 4> kOptions = {
    {{"control-address", "skua.control"}, {"cert", "skua.cert"}, {"key", "skua.key"}, {"ca", "skua.ca"}}};

}  // namespace

BindingEntry skua_binding() {
  return {.name = "skua",
          .java_class = "",
          .help = "Skua: a row per record, all operations in flight",
          .properties = kProperties,
          .make = &make_skua,
          .options = kOptions,
          .doubts = &doubts};
}

}  // namespace skua::ycsb
