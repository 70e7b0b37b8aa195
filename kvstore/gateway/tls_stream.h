// TLS of the gateway's clients: TlsContext has the gateway's certificate and the authorities that it trusts, TlsStream
// is one connection.
// OpenSSL, on sockets that do not block. Nothing else of the gateway knows OpenSSL's TLS.
//
//   accepted socket --> TlsStream: handshake() until kDone --> read(), write(), as of a plain socket
//                                     |
//                                     +--> kFailed: the connection ends
//
// Thread. A handshake and all reads and writes run on the thread of the connection (gateway_thread.h): a handshake
// costs it about a millisecond, mostly the signature, so few go on in a turn of its loop (fair_queue.h). A
// TlsContext is immutable and shared by all threads; files that change make a new one (client_security.h), for
// connections that come later.
//
// What is agreed upon. TLS 1.3, or 1.2 for clients that know no newer one, with OpenSSL's ciphers; no renegotiation,
// no compression. Without authorities sessions may be resumed by tickets, which hold nothing here. With authorities
// each client must show a certificate that one of them has signed, and sessions are not resumed: a resumed session
// would go by a certificate that was looked at long ago.
//
// Bounds. A connection holds OpenSSL's state, some 20 KiB; the buffers of records, 16 KiB each, are held only while a
// record is under way. A message of the handshake has OpenSSL's limits (100 KiB for a chain of certificates). Bytes
// that are not TLS end the connection at once, and nothing is sent in plain. read() takes one record at a time into a
// room that a whole record fits in, so OpenSSL never keeps bytes that epoll does not know of.
#ifndef SKUA_KVSTORE_GATEWAY_TLS_STREAM_H_
#define SKUA_KVSTORE_GATEWAY_TLS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/gateway/gateway_sockets.h"

struct ssl_ctx_st;
struct ssl_st;

namespace skua::kv::gateway {

/// Paths of PEM files.
struct TlsFiles {
  std::string certificate{};  ///< what clients are shown, then those that issued it, if any
  std::string key{};          ///< its private key
  std::string authorities{};  ///< whoever connects must have a certificate of one of them; empty: needs none

  [[nodiscard]] bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

/// Immutable. Thread: any.
class TlsContext {
 public:
  /// FAILED_PRECONDITION: names the file and says what is wrong: it cannot be read, the key is another certificate's,
  /// the certificate has expired.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> load(const TlsFiles& files);

  using Owned = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;
  explicit TlsContext(Owned context) : context_(std::move(context)) {}

  [[nodiscard]] ssl_ctx_st* get() const { return context_.get(); }
  /// When the certificate expires: seconds since 1970.
  [[nodiscard]] int64_t expires_s() const;

 private:
  const Owned context_;
};

/// Thread: one at a time. SIGPIPE must be ignored.
class TlsStream {
 public:
  /// Room for read(): a record.
  static constexpr size_t kReadBytesMin = 16 * 1024;

  /// `socket` must stay open as long as the object lives. Null: no memory.
  static std::unique_ptr<TlsStream> accept(const TlsContext& context, const OwnedFd& socket);

  enum class Progress : uint8_t { kDone, kAgain, kFailed };
  /// Goes on until it is done, has failed, or the socket has nothing or takes nothing. After kDone: kDone.
  [[nodiscard]] Progress handshake();
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  /// Bytes have come. Programs that only look whether somebody listens send none.
  [[nodiscard]] bool has_heard() const;
  /// Why the handshake failed, for the log.
  [[nodiscard]] const std::string& error() const { return error_; }

  /// As read_some() and write_some(). `room` has at least kReadBytesMin. Only when it is ready.
  [[nodiscard]] Transferred read(std::span<char> room);
  [[nodiscard]] Transferred write(std::span<const std::string_view> pieces);
  /// handshake() or read() goes on only when the socket takes bytes, whatever comes in.
  [[nodiscard]] bool wants_write() const { return wants_write_; }
  /// Tells the other end that nothing more comes, if the socket takes it at once.
  void say_end();

  /// The certificates that the client's was verified by, as PEM texts: the client's first, the authority's last. None:
  /// the client has shown none. Only when it is ready.
  [[nodiscard]] std::vector<std::string> verified_chain() const;

 private:
  using Owned = std::unique_ptr<ssl_st, void (*)(ssl_st*)>;
  explicit TlsStream(Owned stream) : stream_(std::move(stream)) {}
  [[nodiscard]] Transferred judge(int result);

  const Owned stream_;
  bool is_ready_ = false;
  bool is_broken_ = false;
  bool wants_write_ = false;
  std::string error_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_TLS_STREAM_H_
