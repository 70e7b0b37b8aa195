#include "control/client/what_answers.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netdb.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/client/channel.h"
#include "control/security/first_words.h"

namespace skua::control {
namespace {

/// The first bytes of HTTP/2, and an empty SETTINGS frame.
constexpr std::string_view kHttp2Preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 24 + 9);
constexpr std::string_view kHttp1Request = "GET / HTTP/1.0\r\n\r\n";
constexpr std::string_view kDataPortMagic = "SKUA";

/// The hello of a data port's dialler (docs/wire-format.md) of no version: refused in words, before it is anybody.
std::string data_port_hello() {
  constexpr char kBytes = 78;
  std::string hello(kDataPortMagic);
  hello += {kBytes, '\0', '\1'};
  hello.resize(static_cast<size_t>(kBytes), '\0');
  return hello;
}

bool is_http1(const std::string& text) {
  return absl::StartsWith(text, "HTTP/") || absl::StrContains(text, "<html") || absl::StrContains(text, "<!DOCTYPE") ||
         absl::StrContains(text, "<!doctype") || absl::StrContains(text, "<HTML");
}

bool is_tls(std::string_view text) {
  return text.size() >= 2 && (text[0] == 0x15 || text[0] == 0x16) && text[1] == 3;
}

/// How a server ends a call of `method` whose request is empty.
grpc::Status call_empty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                        DurationNs timeout_ns) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  set_timeout(context, timeout_ns);
  grpc::CompletionQueue queue;
  grpc::Slice nothing("", 0);
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&reply, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  (void)queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) continue;
  return status;
}

/// It has the method, whatever it thinks of an empty request.
bool is_served(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL: return false;
    default: return true;
  }
}

Answerer which_http2(const std::string& address, DurationNs timeout_ns) {
  static constexpr std::array<std::pair<const char*, Answerer>, 3> kMethods = {{
      {"/skua.control.v1.ShardMap/GetShardMap", Answerer::kControl},
      {"/skua.control.v1.Bootstrap/Describe", Answerer::kStorageNode},
      {"/etcdserverpb.Maintenance/Status", Answerer::kEtcd},
  }};
  const auto channel = make_channel(address, nullptr, {});
  for (const auto& [method, answerer] : kMethods) {
    const grpc::Status status = call_empty(channel, method, timeout_ns);
    if (is_served(status)) return answerer;
    if (absl::StrContains(status.error_message(), "http2 header with status")) return Answerer::kWebServer;
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return Answerer::kSilent;
  }
  return Answerer::kOtherGrpc;
}

}  // namespace

Answerer what_answers(const std::string& address, DurationNs timeout_ns) {
  const Addresses found = look_up(address);
  // A name may have several addresses, of which one is served.
  const addrinfo* to = found.get();
  const DurationNs share_ns = timeout_ns / 4;
  Words words;
  for (; to != nullptr; to = to->ai_next) {
    words = talk(*to, kHttp2Preface, share_ns);
    if (words.connected) break;
  }
  if (to == nullptr) return Answerer::kNobody;
  if (is_http2(words.text)) return which_http2(address, share_ns);
  if (is_http1(words.text)) return Answerer::kWebServer;
  if (is_tls(words.text)) return Answerer::kTls;
  bool spoke = words.ended || !words.text.empty();
  for (const std::string& greeting : {data_port_hello(), tls_hello(), std::string(kHttp1Request)}) {
    words = talk(*to, greeting, share_ns);
    if (absl::StartsWith(words.text, std::string(kDataPortMagic))) return Answerer::kDataPort;
    if (is_http1(words.text)) return Answerer::kWebServer;
    if (is_tls(words.text)) return Answerer::kTls;
    spoke |= words.ended || !words.text.empty();
  }
  return spoke ? Answerer::kNotGrpc : Answerer::kSilent;
}

std::string describe(Answerer answerer) {
  switch (answerer) {
    case Answerer::kNobody: return "";
    case Answerer::kControl: return "a Skua control plane";
    case Answerer::kStorageNode: return "a storage node (skuad)";
    case Answerer::kDataPort: return "the data port of a storage node (skuad)";
    case Answerer::kEtcd: return "an etcd";
    case Answerer::kWebServer: return "a web server";
    case Answerer::kOtherGrpc: return "a gRPC server of another kind";
    case Answerer::kTls: return "a server that expects TLS";
    case Answerer::kSilent: return "something that takes connections and says nothing";
    case Answerer::kNotGrpc: return "something that is not gRPC";
  }
  return "";
}

namespace {

/// The connection was not made in time, so nothing is known of certificates. Only the text tells: the words are those
/// of from_grpc() and gRPC.
bool is_about_time(const std::string& why) {
  return absl::StrContains(why, "not made in time") || absl::StrContains(why, "timed out") ||
         absl::StrContains(why, "Connection refused");
}

}  // namespace

absl::Status explain_control_failure(const absl::Status& status, const std::string& address,
                                     const CredentialsPtr& credentials) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal: break;
    default: return status;
  }
  const Answerer answerer = what_answers(address);
  switch (answerer) {
    case Answerer::kNobody: return status;
    case Answerer::kControl:
      if (credentials == nullptr || credentials->takes_plaintext()) return status;
      return absl::FailedPreconditionError(absl::StrCat(
          "at ", address,
          " is a control plane without TLS, and a certificate was given: give that control plane one, too, "
          "or give another --control-address"));
    case Answerer::kTls:
      if (credentials == nullptr) {
        return absl::FailedPreconditionError(absl::StrCat(
            "at ", address,
            " is a server that expects TLS. If it is a control plane with certificates, give --cert, --key "
            "and --ca (docs/security.md)"));
      }
      if (is_about_time(std::string(status.message()))) return status;
      return absl::FailedPreconditionError(
          absl::StrCat("the server at ", address, " and this program do not trust each other: ", status.message(),
                       ". Their certificates must be of one cluster, valid now, and signed by an authority of the "
                       "other's --ca file: look with skuactl cert show FILE"));
    case Answerer::kSilent:
      return {status.code(),
              absl::StrCat("at ", address, " is ", describe(answerer),
                           ": a skua-control that hangs, or another program. Check --control-address, or "
                           "start skua-control there again")};
    default:
      return absl::FailedPreconditionError(
          absl::StrCat("at ", address, " is ", describe(answerer),
                       ", no control plane. Give --control-address the address of skua-control (its --listen-address, "
                       "127.0.0.1:7400 by default)"));
  }
}

}  // namespace skua::control
