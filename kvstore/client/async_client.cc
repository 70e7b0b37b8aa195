#include "kvstore/client/async_client.h"

#include <optional>
#include <utility>

#include "control/security/credentials.h"
#include "kvstore/client/async_client_impl.h"
#include "kvstore/client/control_access.h"
#include "rpc/base/entropy.h"
#include "rpc/base/tsc_clock.h"
#include "rpc/transport/sealed/seal.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua::kv {
namespace {

/// Workers of nodes that a client may have sessions with at a time.
constexpr uint32_t kNodeWorkersMax = 8192;

}  // namespace

absl::StatusOr<std::shared_ptr<rpc::Transport>> make_client_transport(uint64_t seed, const TransportMaker& maker) {
  Rng rng(seed);
  rpc::EndpointIdentity self;
  for (uint8_t& byte : self.uuid.bytes) byte = static_cast<uint8_t>(rng.below(256));
  self.uuid.bytes[0] |= 1;  // a zero uuid means: no endpoint
  self.incarnation = 1;
  if (maker) return maker(self);
  rpc::TcpOptions options;
  options.self = self;
  absl::StatusOr<std::unique_ptr<rpc::TcpTransport>> made = rpc::TcpTransport::create(std::move(options));
  if (!made.ok()) return made.status();
  return std::shared_ptr<rpc::Transport>(std::move(*made));
}

uint64_t draw_client_id() {
  uint64_t id = 0;
  while (id == 0) id = draw_entropy();
  return id;
}

absl::StatusOr<std::unique_ptr<AsyncClient>> AsyncClient::create(ClientOptions options) {
  if (absl::Status status = check_options(options); !status.ok()) return status;
  // No two clients may have the same endpoint uuid, even if they were given the same seed.
  const uint64_t fresh = draw_entropy();
  if (options.seed == 0) options.seed = fresh;
  absl::StatusOr<control::CredentialsPtr> credentials = control::Credentials::load(options.credentials);
  if (!credentials.ok()) return credentials.status();
  const absl::StatusOr<rpc::PacketProtection> packets =
      rpc::choose_protection(options.packets, *credentials != nullptr);
  if (!packets.ok()) return packets.status();
  absl::StatusOr<std::shared_ptr<rpc::Transport>> transport = make_client_transport(fresh, options.make_transport);
  if (!transport.ok()) return transport.status();
  auto clock = std::make_unique<TscClock>();
  std::shared_ptr<rpc::Transport> made = *std::move(transport);
  if (*packets != rpc::PacketProtection::kOff) {
    made = rpc::seal(
        std::move(made), *clock,
        {.protection = *packets, .peers_max = kNodeWorkersMax, .key_lifetime_ns = options.packet_key_lifetime.count()});
  }
  auto impl = std::make_unique<Impl>(std::move(clock), std::move(made),
                                     make_control_access(options.control_address, *std::move(credentials)), options,
                                     draw_client_id());
  return std::make_unique<AsyncClient>(std::move(impl));
}

AsyncClient::AsyncClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsyncClient::~AsyncClient() {
  impl_->core.close();  // before impl_ goes: callbacks run here and may use the client
}

absl::Status AsyncClient::warm_up(std::string_view table, std::chrono::nanoseconds timeout) {
  return impl_->core.warm_up(table, timeout.count());
}

std::optional<uint32_t> AsyncClient::shard_of(std::string_view table, std::string_view key) {
  return impl_->core.shard_of(table, key);
}

absl::Status AsyncClient::run(const GetCall& call, GetCallback done) {
  return impl_->core.run(call, std::move(done));
}

absl::Status AsyncClient::run(const PlainGetCall& call, const GetFunction& done) {
  return impl_->core.run(call, done);
}

absl::Status AsyncClient::run(WriteCall&& call, WriteCallback done) {
  return impl_->core.run(std::move(call), std::move(done));
}

absl::Status AsyncClient::run(const BatchCall& call, BatchCallback done) {
  return impl_->core.run(call, std::move(done));
}

absl::Status AsyncClient::run(const MultiGetCall& call, MultiGetCallback done) {
  return impl_->core.run(call, std::move(done));
}

absl::Status AsyncClient::run(const ScanCall& call, ScanCallback done) {
  return impl_->core.run(call, std::move(done));
}

size_t AsyncClient::poll(std::chrono::nanoseconds max_wait) {
  return impl_->core.poll(max_wait.count());
}

int AsyncClient::wait_fd() const {
  return impl_->core.wait_fd();
}

std::optional<std::chrono::nanoseconds> AsyncClient::begin_wait() {
  return impl_->core.begin_wait();
}

void AsyncClient::end_wait() {
  impl_->core.end_wait();
}

size_t AsyncClient::in_flight() const {
  return impl_->core.in_flight();
}

const ClientCounters& AsyncClient::counters() const {
  return impl_->core.counters();
}

bool AsyncClient::post(absl::AnyInvocable<void()>&& task) {
  return impl_->core.post(std::move(task));
}

void AsyncClient::adopt_thread() {
  impl_->core.adopt_thread();
}

}  // namespace skua::kv
