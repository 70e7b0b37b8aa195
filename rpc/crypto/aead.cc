#include "rpc/crypto/aead.h"

#include <openssl/evp.h>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

unsigned char* to_uchar(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* to_uchar(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

struct ContextDeleter {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, ContextDeleter>;

/// The key stays in the contexts: a new message sets the nonce only.
class OpenSslAead final : public Aead {
 public:
  explicit OpenSslAead(const AeadKey& key) : seal_(EVP_CIPHER_CTX_new()), open_(EVP_CIPHER_CTX_new()) {
    const unsigned char* bytes = to_uchar(key.bytes().data());
    must(EVP_EncryptInit_ex(seal_.get(), EVP_aes_128_gcm(), nullptr, bytes, nullptr));
    must(EVP_DecryptInit_ex(open_.get(), EVP_aes_128_gcm(), nullptr, bytes, nullptr));
  }

  void seal(const AeadNonce& nonce, ByteSpan associated, std::span<const ByteSpan> pieces, std::byte* to,
            std::byte* tag) override {
    must(EVP_EncryptInit_ex(seal_.get(), nullptr, nullptr, nullptr, to_uchar(nonce.data())));
    add(associated);
    for (const ByteSpan piece : pieces) {
      int size = 0;
      must(EVP_EncryptUpdate(seal_.get(), to_uchar(to), &size, to_uchar(piece.data()), static_cast<int>(piece.size())));
      to += size;
    }
    finish(tag);
  }

  bool open(const AeadNonce& nonce, ByteSpan associated, MutableByteSpan text, const std::byte* tag) override {
    int size = 0;
    must(EVP_DecryptInit_ex(open_.get(), nullptr, nullptr, nullptr, to_uchar(nonce.data())));
    must(EVP_DecryptUpdate(open_.get(), nullptr, &size, to_uchar(associated.data()),
                           static_cast<int>(associated.size())));
    must(EVP_DecryptUpdate(open_.get(), to_uchar(text.data()), &size, to_uchar(text.data()),
                           static_cast<int>(text.size())));
    std::array<std::byte, kAeadTagBytes> wanted;
    copy_bytes(wanted.data(), {tag, kAeadTagBytes});
    must(EVP_CIPHER_CTX_ctrl(open_.get(), EVP_CTRL_GCM_SET_TAG, kAeadTagBytes, wanted.data()));
    return EVP_DecryptFinal_ex(open_.get(), to_uchar(wanted.data()), &size) == 1;
  }

  void sign(const AeadNonce& nonce, ByteSpan associated, std::byte* tag) override {
    must(EVP_EncryptInit_ex(seal_.get(), nullptr, nullptr, nullptr, to_uchar(nonce.data())));
    add(associated);
    finish(tag);
  }

 private:
  /// OpenSSL fails here only without memory.
  static void must(int result) { SKUA_CHECK(result == 1, "OpenSSL's AES-128-GCM failed"); }

  void add(ByteSpan associated) {
    int size = 0;
    if (associated.empty()) return;
    must(EVP_EncryptUpdate(seal_.get(), nullptr, &size, to_uchar(associated.data()),
                           static_cast<int>(associated.size())));
  }
  void finish(std::byte* tag) {
    int size = 0;
    std::array<unsigned char, 16> nothing_left;
    must(EVP_EncryptFinal_ex(seal_.get(), nothing_left.data(), &size));
    must(EVP_CIPHER_CTX_ctrl(seal_.get(), EVP_CTRL_GCM_GET_TAG, kAeadTagBytes, tag));
  }

  Context seal_;
  Context open_;
};

}  // namespace

bool Aead::verify(const AeadNonce& nonce, ByteSpan associated, const std::byte* tag) {
  std::array<std::byte, kAeadTagBytes> expected;
  sign(nonce, associated, expected.data());
  return is_equal_tag(expected.data(), tag);
}

// Each frame's tag is compared, so without a call: all bits of both, and one branch on the outcome.
bool is_equal_tag(const std::byte* a, const std::byte* b) {
  static_assert(kAeadTagBytes == 2 * sizeof(uint64_t));
  const uint64_t low = load_le<uint64_t>(a) ^ load_le<uint64_t>(b);
  const uint64_t high = load_le<uint64_t>(a + sizeof low) ^ load_le<uint64_t>(b + sizeof low);
  return (low | high) == 0;
}

AeadLibrary best_aead_library() {
  return internal::has_ipsec_mb() ? AeadLibrary::kIpsecMb : AeadLibrary::kOpenSsl;
}

bool has_aead_library(AeadLibrary library) {
  return library == AeadLibrary::kOpenSsl || internal::has_ipsec_mb();
}

std::string_view to_string(AeadLibrary library) {
  return library == AeadLibrary::kIpsecMb ? "ipsec-mb" : "OpenSSL";
}

std::unique_ptr<Aead> make_best_aead(const AeadKey& key) {
  return make_aead(key, best_aead_library());
}

std::unique_ptr<Aead> make_aead(const AeadKey& key, AeadLibrary library) {
  SKUA_CHECK(has_aead_library(library), "the processor lacks what this library needs");
  if (library == AeadLibrary::kIpsecMb) return internal::make_ipsec_mb_aead(key);
  return std::make_unique<OpenSslAead>(key);
}

}  // namespace skua::rpc
