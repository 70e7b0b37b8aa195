// How long it takes to open a session over a gRPC channel that stands, with and without certificates.
//
//   session_openings [COUNT]       1,000 sessions in a row, in blocks that alternate; prints one line of JSON
//
// Two endpoints over loopback TCP, and a node's gRPC server between them, all in this process. An opening is what a
// client does before its first call: offer, OpenSession over gRPC, answer, the first call and its answer. Its session
// is closed afterwards. The first session of each kind is not counted: gRPC's channel, the connection and, with
// certificates, the channel of sealed packets stand after that.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/client/bootstrap_client.h"
#include "control/security/certificates.h"
#include "control/server/bootstrap_server.h"
#include "rpc/base/check.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sealed/seal.h"
#include "rpc/transport/tcp/tcp_transport.h"

namespace skua {
namespace {

constexpr const char* kCluster = "0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11";
constexpr const char* kNode = "7d0c1e52-2f0a-4d8e-8f53-6f0f3a1b9c77";
constexpr rpc::MethodId kEcho = 1;
constexpr DurationNs kPatience = 10 * kSecond;
constexpr size_t kBlock = 50;

void check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "session_openings: %s\n", status.ToString().c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): nobody else ends the program
}

template <typename T>
T value_of(absl::StatusOr<T> result) {
  check(result.status());
  return *std::move(result);
}

/// An endpoint over TCP whose packets are sealed if `sealed`.
struct Host {
  Host(const Clock& clock, uint8_t number, bool listens, bool sealed) {
    rpc::TcpOptions options;
    options.self.uuid.bytes[0] = number;
    options.self.incarnation = 1;
    if (listens) options.listen_ip = "127.0.0.1";
    transport = value_of(rpc::TcpTransport::create(options));
    if (sealed) transport = rpc::seal(std::move(transport), clock, {.peers_max = 16});
    endpoint = std::make_unique<rpc::Endpoint>(*transport, clock, rpc::EndpointOptions{});
    endpoint->serve(kEcho,
                    [](rpc::IncomingCall&& call) { call.reply.reply(rpc::MessagePtr::copy_of(call.request.bytes())); });
  }

  std::shared_ptr<rpc::Transport> transport;
  std::unique_ptr<rpc::Endpoint> endpoint;
};

/// A node with one worker.
class Server final : public control::SessionAcceptor {
 public:
  Server(const Clock& clock, bool sealed, const control::CredentialsPtr& credentials)
      : host_(clock, 1, true, sealed),
        descriptor_(host_.endpoint->local_descriptor()),
        mailbox_(host_.endpoint->mailbox()) {
    grpc_ = value_of(control::BootstrapServer::start("127.0.0.1:0", *this, {}, credentials));
    thread_ = std::thread([this] {
      host_.endpoint->adopt_thread();
      while (!stopping_) host_.endpoint->poll_or_wait(kMillisecond);
    });
  }
  ~Server() override {
    grpc_->shutdown();
    stopping_ = true;
    thread_.join();
    host_.endpoint->adopt_thread();
  }

  control::NodeDescription describe() override { return {kNode, 1, kCluster, {{0, {{"tcp", descriptor_.encode()}}}}}; }
  absl::StatusOr<std::string> open_session(uint32_t /*worker*/, const control::TransportDescriptor& /*caller*/,
                                           const std::string& offer, const control::SessionCaller& who) override {
    std::promise<std::string> answer;
    const bool posted = mailbox_->post_waiting([&] {
      answer.set_value(host_.endpoint->accept_offer(as_byte_span(offer), {.source = 1, .principal = who.principal}));
    });
    if (!posted) return absl::UnavailableError("the worker has stopped");
    return answer.get_future().get();
  }

  [[nodiscard]] const rpc::Descriptor& descriptor() const { return descriptor_; }
  [[nodiscard]] const std::string& address() const { return grpc_->address(); }

 private:
  Host host_;
  const rpc::Descriptor descriptor_;
  const std::shared_ptr<rpc::Mailbox> mailbox_;
  std::unique_ptr<control::BootstrapServer> grpc_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// One kind of openings.
class Openings {
 public:
  Openings(const Clock& clock, control::CredentialsPtr server, control::CredentialsPtr client)
      : clock_(clock),
        server_(clock, client != nullptr, server),
        caller_(clock, 2, false, client != nullptr),
        bootstrap_(std::move(client)) {}

  void open(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const TimeNs begin = clock_.now_ns();
      open_one();
      took_ns_.push_back(clock_.now_ns() - begin);
    }
  }
  void forget() { took_ns_.clear(); }
  /// In milliseconds.
  double quantile(double share) {
    std::ranges::sort(took_ns_);
    const auto at = static_cast<size_t>(share * static_cast<double>(took_ns_.size() - 1));
    return static_cast<double>(took_ns_[at]) / static_cast<double>(kMillisecond);
  }

 private:
  void open_one() {
    const auto offer = value_of(caller_.endpoint->begin_connect(server_.descriptor()));
    control::OpenSessionRequest request;
    request.grpc_address = server_.address();
    request.cluster_id = kCluster;
    request.node_uuid = kNode;
    request.incarnation = 1;
    request.offer = offer.bytes;
    const auto answer = value_of(bootstrap_.open_session(request, kPatience));
    check(caller_.endpoint->finish_connect(offer.session, as_byte_span(answer.answer)));
    std::optional<absl::Status> outcome;
    check(caller_.endpoint
              ->call(offer.session, kEcho, rpc::MessagePtr::copy_of(as_byte_span("x")), {.timeout_ns = kPatience},
                     [&](rpc::CallResult&& result) { outcome = result.status; })
              .status());
    while (!outcome.has_value()) caller_.endpoint->poll_or_wait(kMillisecond);
    check(*outcome);
    caller_.endpoint->close(offer.session);
    caller_.endpoint->poll();
  }

  const Clock& clock_;
  Server server_;
  Host caller_;
  control::BootstrapClient bootstrap_;
  std::vector<DurationNs> took_ns_;
};

/// An authority's certificate for `role`, in files of `folder`.
control::CredentialsPtr credentials_of(const control::CertificateAndKey& authority, const std::string& folder,
                                       control::Role role, const std::string& name) {
  const control::WallSeconds now = std::time(nullptr);
  const auto made =
      value_of(control::issue_certificate(authority, {kCluster, role, name}, {"127.0.0.1"}, {now, now + 3600}));
  const std::string stem = folder + "/" + name;
  const control::CredentialFiles files{stem + ".pem", stem + ".key", stem + ".ca"};
  std::ofstream(files.certificate) << made.certificate;
  std::ofstream(files.key) << made.key;
  std::ofstream(files.authorities) << authority.certificate;
  return value_of(control::Credentials::load(files));
}

int run(size_t count) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("skua-openings-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const control::WallSeconds now = std::time(nullptr);
  const auto authority = value_of(control::make_authority(kCluster, {now, now + 3600}));
  const SteadyClock clock;
  {
    Openings plain(clock, nullptr, nullptr);
    Openings secure(clock, credentials_of(authority, folder, control::Role::kNode, kNode),
                    credentials_of(authority, folder, control::Role::kClient, "client"));
    for (Openings* kind : {&plain, &secure}) {
      kind->open(kBlock);
      kind->forget();
    }
    for (size_t done = 0; done < count; done += kBlock) {
      for (Openings* kind : {&plain, &secure}) kind->open(kBlock);
    }
    std::printf(
        "{\"sessions\": %zu, \"plain_p50_ms\": %.3f, \"plain_p99_ms\": %.3f, \"secure_p50_ms\": %.3f, "
        "\"secure_p99_ms\": %.3f}\n",
        count, plain.quantile(0.5), plain.quantile(0.99), secure.quantile(0.5), secure.quantile(0.99));
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace skua

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  if (argc > 2 || count == 0) {
    std::fprintf(stderr, "usage: session_openings [COUNT]\n");
    return 2;
  }
  return skua::run(count);
}
