// Hello: the first bytes on a connection. The side that dialled says who it is and whom it wants; the other side
// replies with a version or with the reason of a refusal. Nothing else is sent before the reply.
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
// Little endian. Both records may grow only at their end: a reader takes the fields that it knows and skips the rest.
// So an old and a new release always understand each other's refusals.
//
// The reply names the endpoint that was dialled. The identity in a hello is only a claim of the caller, kept for
// messages.
//
// The dial number counts the connections that an incarnation has tried. Earlier releases kept one connection for both
// directions and used the number to find the newer one. This release sends the number for them and ignores it itself.
#ifndef SKUA_RPC_TRANSPORT_TCP_HELLO_H_
#define SKUA_RPC_TRANSPORT_TCP_HELLO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/transport/descriptor.h"

namespace skua::rpc::tcp {

inline constexpr uint32_t kHelloMagic = 0x41554B53;  // "SKUA"
/// Magic, length, kind and one more byte: enough to know the length of the rest.
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
  /// The uuid that the dialler expects at this address; zero: any.
  Uuid expected;
  EndpointIdentity sender;
  /// SocketAddress::encode() of where the sender listens; empty: it does not listen.
  std::string sender_address;
  bool operator==(const Hello&) const = default;
};

/// The values are on the wire: never reuse one.
enum class HelloCode : uint8_t {
  kAccepted = 0,
  kVersion = 1,
  kCluster = 2,
  /// The endpoint at this address is not the expected one.
  kWrongUuid = 3,
  /// The sender claims the receiver's own uuid.
  kSameUuid = 4,
  /// Sent by earlier releases, which keep one connection for both directions: they kept the other connection. Not an
  /// error.
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

/// The bytes above. The text of a reply is cut to kRefusalTextMax. An address above Descriptor::kAddressMax fails a
/// check.
[[nodiscard]] std::string encode_hello(const Hello& hello);
[[nodiscard]] std::string encode_reply(const HelloReply& reply);

/// The length of the record that starts with these kHelloPreambleBytes. INVALID_ARGUMENT: not Skua, not of this kind,
/// or longer than kHelloBytesMax.
absl::StatusOr<size_t> hello_size(ByteSpan preamble, HelloKind kind);

/// Decodes a whole record. INVALID_ARGUMENT: shorter than its fields, or not of the length that it carries.
absl::StatusOr<Hello> decode_hello(ByteSpan bytes);
absl::StatusOr<HelloReply> decode_reply(ByteSpan bytes);

/// The highest version in both ranges; 0: none.
[[nodiscard]] uint16_t negotiate(VersionRange a, VersionRange b);

/// How the listener `self` judges a hello, before it looks at its connections: kAccepted, or a refusal whose text names
/// both sides and a remedy.
[[nodiscard]] HelloReply judge_hello(const Hello& hello, const EndpointIdentity& self, VersionRange versions);

/// True if both belong to a cluster, and the clusters differ.
[[nodiscard]] bool is_foreign_cluster(const Uuid& a, const Uuid& b);

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_HELLO_H_
