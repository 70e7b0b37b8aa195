#include "control/security/tls_version.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <utility>

#include "rpc/base/check.h"

namespace skua::control {
namespace {

constexpr uint64_t kOlder = SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_TLSv1_2;

thread_local bool allows_older = false;

/// Runs for each context that is made, before its maker has it.
void refuse_older_versions(void* context, void* /*data*/, CRYPTO_EX_DATA* /*all*/, int /*index*/, long /*argument*/,
                           void* /*pointer*/) {
  if (!allows_older) SSL_CTX_set_options(static_cast<SSL_CTX*>(context), kOlder);
}

}  // namespace

void require_tls_13() {
  // gRPC sets the least version of its contexts to 1.2, and its options do not tell otherwise. What a context refuses
  // beyond that holds for gRPC as well. So each new context gets these options from a place in its data that is ours.
  const int index =
      CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, nullptr, refuse_older_versions, nullptr, nullptr);
  SKUA_CHECK(index >= 0, "OpenSSL has no memory for its own data");
}

AllowOlderTls::AllowOlderTls() : before_(std::exchange(allows_older, true)) {}

AllowOlderTls::~AllowOlderTls() {
  allows_older = before_;
}

}  // namespace skua::control
