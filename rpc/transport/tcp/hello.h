// The first bytes on a connection: the side that dialled says who it is and whom it wants, the
// other answers with a version or with a reason in words. Nothing else is sent before the answer.
//
//   hello                                        reply
//   0   4  magic "SKUA"                          0   4  magic "SKUA"
//   4   2  bytes of the whole hello              4   2  bytes of the whole reply
//   6   1  kind: 1                               6   1  kind: 2
//   7   1  flags (zero; unknown ones ignored)    7   1  code: 0 accepted, else why not (HelloCode)
//   8   2  lowest version spoken                 8   2  lowest version spoken
//   10  2  highest version spoken                10  2  highest version spoken
//   12  8  dial number                           12  2  version chosen (0: refused)
//   20  16 uuid expected of the receiver (0 any) 14  8  last dial number of the replier
//   36  16 sender: uuid                          22  16 replier: uuid
//   52  8          incarnation                   38  8           incarnation
//   60  16         cluster id                    46  16          cluster id
//   76  2  length + sender's address             62  2  length + text of the refusal
//
// Little endian. Both records may grow at their end only: a reader takes the fields it knows and
// skips the rest, so an old and a new release always understand each other's refusals.
//
// The hello identifies nobody: the reply names the endpoint that was dialled, but who dialled is a claim, kept for messages.
//
// The dial number counts the connections that an incarnation has tried. Releases that kept one connection for both directions
// tell by it which one is newer; this one sends it for their sake, and does not look at it.
#ifndef SKUA_RPC_TRANSPORT_TCP_HELLO_H_
#define SKUA_RPC_TRANSPORT_TCP_HELLO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/transport/descriptor.h"

namespace skua::rpc::tcp {

inline constexpr uint32_t kHelloMagic = 0x41554B53;  // "SKUA"
/// Magic, length, kind and one more byte: enough to know how much follows.
inline constexpr size_t kHelloPreambleBytes = 8;

enum class HelloKind : uint8_t { kHello = 1, kReply = 2 };

struct VersionRange {
  uint16_t min = 0;
  uint16_t max = 0;
  bool operator==(const VersionRange&) const = default;
};

struct Hello {
  VersionRange versions;
  uint64_t dial_number = 0;
  /// Who the dialler believes lives here; zero: whoever.
  Uuid expected;
  EndpointIdentity sender;
  /// SocketAddress::encode() of where the sender listens; empty: nowhere.
  std::string sender_address;
  bool operator==(const Hello&) const = default;
};

/// Values are on the wire: never reuse one.
enum class HelloCode : uint8_t {
  kAccepted = 0,
  kVersion = 1,
  kCluster = 2,
  /// Another endpoint than the expected one lives here.
  kWrongUuid = 3,
  /// The sender claims the receiver's own uuid.
  kSameUuid = 4,
  /// Of earlier releases, which keep one connection for both directions: the other one is kept. Not an error.
  kRace = 5,
  kStale = 6,
  /// No room for another peer.
  kFull = 7,
};

struct HelloReply {
  HelloCode code = HelloCode::kAccepted;
  VersionRange versions;
  uint16_t chosen = 0;
  uint64_t last_dial_number = 0;
  EndpointIdentity replier;
  std::string text;
  bool operator==(const HelloReply&) const = default;
};

/// The bytes above. The text is cut to kRefusalTextMax; an address always fits (checked).
[[nodiscard]] std::string encode_hello(const Hello& hello);
[[nodiscard]] std::string encode_reply(const HelloReply& reply);

/// How long a record that starts with these kHelloPreambleBytes is. INVALID_ARGUMENT: not Skua, not
/// of this kind, or longer than kHelloBytesMax.
absl::StatusOr<size_t> hello_size(ByteSpan preamble, HelloKind kind);

/// `bytes` is the whole record. INVALID_ARGUMENT: shorter than its fields, or longer or shorter
/// than it says.
absl::StatusOr<Hello> decode_hello(ByteSpan bytes);
absl::StatusOr<HelloReply> decode_reply(ByteSpan bytes);

/// The highest version in both ranges, or 0.
[[nodiscard]] uint16_t negotiate(VersionRange a, VersionRange b);

/// What a listener that is `self` thinks of `hello` before it looks at its connections: kAccepted,
/// or a refusal whose text names both sides and the way out.
[[nodiscard]] HelloReply judge_hello(const Hello& hello, const EndpointIdentity& self, VersionRange versions);

/// True if both belong to clusters, and not to the same.
[[nodiscard]] bool is_foreign_cluster(const Uuid& a, const Uuid& b);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_HELLO_H_
