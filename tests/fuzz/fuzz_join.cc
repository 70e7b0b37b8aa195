// What strangers may send to the control plane to join: the word of a token, and a request for a certificate. The first
// byte picks:
//
//     a word as it comes; a token of ours that was damaged
//     a request as it comes; a request of ours that was damaged: what is still taken is for the key that signed it
#include <cstdint>
#include <string>

#include "control/security/certificates.h"
#include "control/security/join_token.h"
#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::control {
namespace {

using fuzz::FuzzInput;

std::string padded(std::string text, size_t size) {
  text.resize(size, 'x');
  return text;
}

void check_word(const std::string& word) {
  const auto token = parse_join_token(word);
  if (!token.ok()) return;
  SKUA_CHECK(encode_join_token(*token) == word, "each token has one word");
  SKUA_CHECK(token->secret.size() == kJoinSecretBytes && token->authority.size() == kAuthorityHashBytes, "sizes");
}

void fuzz_damaged_word(FuzzInput& in) {
  JoinToken token;
  token.port = static_cast<uint16_t>(in.number<uint16_t>() | 1);
  token.secret = padded(std::string(as_string_view(in.take(kJoinSecretBytes))), kJoinSecretBytes);
  token.authority = padded(std::string(as_string_view(in.take(kAuthorityHashBytes))), kAuthorityHashBytes);
  const std::string good = encode_join_token(token);
  SKUA_CHECK(*parse_join_token(good) == token, "a token is read as it was written");
  std::string found = good;
  in.damage(found);
  check_word(found);
}

void check_request(const std::string& bytes) {
  const auto key = inspect_certificate_request(bytes);
  if (key.ok()) SKUA_CHECK(key->size() == 64, "a hash");
  SKUA_CHECK(key.ok() || !key.status().message().empty(), "a refusal without a word");
}

void fuzz_damaged_request(FuzzInput& in) {
  static const std::string good = *make_certificate_request(*make_private_key());
  static const std::string key = *inspect_certificate_request(good);
  std::string found = good;
  in.damage(found);
  const auto taken = inspect_certificate_request(found);
  SKUA_CHECK(!taken.ok() || *taken == key, "a request for a key that did not sign it");
}

}  // namespace
}  // namespace skua::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skua::control;  // NOLINT(google-build-using-namespace)
  FuzzInput in(skua::ByteSpan(reinterpret_cast<const std::byte*>(data), size));
  switch (in.pick(4)) {
    case 0: check_word(std::string(skua::as_string_view(in.take_rest()))); break;
    case 1: fuzz_damaged_word(in); break;
    case 2: check_request(std::string(skua::as_string_view(in.take_rest()))); break;
    default: fuzz_damaged_request(in); break;
  }
  return 0;
}
