#include "kvstore/gateway/tls_stream.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "control/security/certificate_files.h"
#include "control/security/tls_version.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

/// Bytes of one record: pieces of replies are put together to that.
constexpr size_t kRecordBytesMax = 16 * 1024;

/// What OpenSSL says of its latest failure, and forgets then.
std::string tls_error_text() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

absl::Status file_error(const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", absl_view(what), ": ", tls_error_text()));
}

/// A key that is encrypted is refused: nobody is there to type its password.
int no_password(char* /*buffer*/, int /*size*/, int /*is_writing*/, void* /*own*/) {
  return 0;
}

absl::Status use_certificate(SSL_CTX* context, const TlsFiles& files) {
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return file_error(files.certificate, "not a certificate in PEM");
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return file_error(files.key, "not the private key of the certificate, in PEM and without a password");
  }
  if (absl::Status kept = control::check_key_is_kept(files.key); !kept.ok()) return kept;
  if (SSL_CTX_check_private_key(context) != 1) return file_error(files.key, "the key is another certificate's");
  const X509* const own = SSL_CTX_get0_certificate(context);
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    return absl::FailedPreconditionError(absl::StrCat(files.certificate, ": the certificate has expired"));
  }
  return absl::OkStatus();
}

absl::Status use_authorities(SSL_CTX* context, const std::string& path) {
  if (SSL_CTX_load_verify_file(context, path.c_str()) != 1) return file_error(path, "no certificates in PEM");
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(path.c_str());
  if (names == nullptr) return file_error(path, "no certificates in PEM");
  SSL_CTX_set_client_CA_list(context, names);  // takes them
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // No resumption: see the header.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  return absl::OkStatus();
}

std::string pem_of(X509* certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), &BIO_free_all);
  if (out == nullptr || PEM_write_bio_X509(out.get(), certificate) != 1) return {};
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

}  // namespace

int64_t TlsContext::expires_s() const {
  std::tm time{};
  const X509* const own = SSL_CTX_get0_certificate(context_.get());
  return ASN1_TIME_to_tm(X509_get0_notAfter(own), &time) == 1 ? int64_t{timegm(&time)} : 0;
}

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsFiles& files) {
  ERR_clear_error();
  const control::AllowOlderTls older;  // clients of Redis may know no newer version than 1.2
  Owned context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("OpenSSL has no memory for TLS");
  SSL_CTX* const made = context.get();
  SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
  // Clients often close without TLS's own goodbye. A command that was cut is not carried out: it says how long it is.
  SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_default_passwd_cb(made, no_password);
  // A write goes on with the same bytes from wherever they lie then. One record at a time: others have their turn.
  SSL_CTX_set_mode(made,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_clear_mode(made, SSL_MODE_AUTO_RETRY);
  if (absl::Status status = use_certificate(made, files); !status.ok()) return status;
  if (!files.authorities.empty()) {
    if (absl::Status status = use_authorities(made, files.authorities); !status.ok()) return status;
  }
  return std::make_shared<const TlsContext>(std::move(context));
}

std::unique_ptr<TlsStream> TlsStream::accept(const TlsContext& context, const OwnedFd& socket) {
  Owned stream(SSL_new(context.get()), &SSL_free);
  if (stream == nullptr || SSL_set_fd(stream.get(), socket.get()) != 1) return nullptr;
  SSL_set_accept_state(stream.get());
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(stream)));
}

TlsStream::Progress TlsStream::handshake() {
  if (is_ready_) return Progress::kDone;
  ERR_clear_error();
  const Transferred step = judge(SSL_do_handshake(stream_.get()));
  is_ready_ = step.bytes > 0;
  if (!step.is_over) return is_ready_ ? Progress::kDone : Progress::kAgain;
  is_broken_ = true;
  const long verdict = SSL_get_verify_result(stream_.get());
  error_ = tls_error_text();
  if (verdict != X509_V_OK) absl::StrAppend(&error_, " (", X509_verify_cert_error_string(verdict), ")");
  return Progress::kFailed;
}

bool TlsStream::has_heard() const {
  return BIO_number_read(SSL_get_rbio(stream_.get())) > 0;
}

/// `result`: of a call of OpenSSL's.
Transferred TlsStream::judge(int result) {
  wants_write_ = false;
  if (result > 0) return {.bytes = static_cast<size_t>(result)};
  const int error = SSL_get_error(stream_.get(), result);
  wants_write_ = error == SSL_ERROR_WANT_WRITE;
  if (wants_write_ || error == SSL_ERROR_WANT_READ) return {};
  if (error != SSL_ERROR_ZERO_RETURN) is_broken_ = true;
  return {.is_over = true};
}

Transferred TlsStream::read(std::span<char> room) {
  ERR_clear_error();
  return judge(SSL_read(stream_.get(), room.data(), static_cast<int>(room.size())));
}

Transferred TlsStream::write(std::span<const std::string_view> pieces) {
  // A record for each piece would cost more than this copy. A write that the socket did not take is tried again with
  // the same bytes at the front, and perhaps more: the pieces stay until they are out.
  std::array<char, kRecordBytesMax> record;
  size_t size = 0;
  for (const std::string_view piece : pieces) {
    const size_t taken = std::min(piece.size(), record.size() - size);
    std::memcpy(record.data() + size, piece.data(), taken);
    size += taken;
    if (size == record.size()) break;
  }
  const bool reading_wants_write = wants_write_;
  ERR_clear_error();
  const Transferred sent = judge(SSL_write(stream_.get(), record.data(), static_cast<int>(size)));
  wants_write_ = reading_wants_write;  // whoever writes knows by the bytes
  return sent;
}

void TlsStream::say_end() {
  if (!is_ready_ || is_broken_) return;
  ERR_clear_error();
  (void)SSL_shutdown(stream_.get());
  ERR_clear_error();
}

std::vector<std::string> TlsStream::verified_chain() const {
  std::vector<std::string> chain;
  const STACK_OF(X509)* const verified = SSL_get0_verified_chain(stream_.get());
  const int count = sk_X509_num(verified);
  if (count > 0) chain.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) chain.push_back(pem_of(sk_X509_value(verified, i)));
  return chain;
}

}  // namespace skua::kv::gateway
