// NonceWatch: makes ciphers, and sees each nonce that something is sealed or signed under.
//
// AES-GCM protects nothing any more once two frames were sealed under the same key with the same nonce. So simulations
// give their endpoints ciphers of a NonceWatch, which compares each pair with all that came before.
#ifndef SKUA_TESTS_RPC_CRYPTO_NONCE_WATCH_H_
#define SKUA_TESTS_RPC_CRYPTO_NONCE_WATCH_H_

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "rpc/base/bytes.h"
#include "rpc/crypto/aead.h"

namespace skua::rpc {

/// Must outlive the ciphers. Thread: one.
class NonceWatch {
 public:
  /// `on_repeat` runs when a nonce was used under a key that it was used under before.
  explicit NonceWatch(std::function<void()> on_repeat) : on_repeat_(std::move(on_repeat)) {}

  /// Makes ciphers that tell the watch of their nonces.
  [[nodiscard]] AeadMaker maker() {
    return [this](const AeadKey& key) { return std::make_unique<Watched>(*this, key); };
  }
  /// Number of different pairs of key and nonce.
  [[nodiscard]] size_t used_count() const { return used_.size(); }

 private:
  using KeyAndNonce = std::pair<std::array<std::byte, kAeadKeyBytes>, AeadNonce>;

  class Watched final : public Aead {
   public:
    Watched(NonceWatch& watch, const AeadKey& key) : watch_(watch), aead_(make_best_aead(key)) {
      copy_bytes(used_.first.data(), key.bytes());
    }
    void seal(const AeadNonce& nonce, ByteSpan associated, std::span<const ByteSpan> pieces, std::byte* to,
              std::byte* tag) override {
      note(nonce);
      aead_->seal(nonce, associated, pieces, to, tag);
    }
    bool open(const AeadNonce& nonce, ByteSpan associated, MutableByteSpan text, const std::byte* tag) override {
      return aead_->open(nonce, associated, text, tag);
    }
    void sign(const AeadNonce& nonce, ByteSpan associated, std::byte* tag) override {
      note(nonce);
      aead_->sign(nonce, associated, tag);
    }
    bool verify(const AeadNonce& nonce, ByteSpan associated, const std::byte* tag) override {
      return aead_->verify(nonce, associated, tag);
    }

   private:
    void note(const AeadNonce& nonce) {
      used_.second = nonce;
      if (!watch_.used_.insert(used_).second) watch_.on_repeat_();
    }

    NonceWatch& watch_;
    const std::unique_ptr<Aead> aead_;
    KeyAndNonce used_;
  };

  const std::function<void()> on_repeat_;
  absl::flat_hash_set<KeyAndNonce> used_;
};

}  // namespace skua::rpc

#endif  // SKUA_TESTS_RPC_CRYPTO_NONCE_WATCH_H_
