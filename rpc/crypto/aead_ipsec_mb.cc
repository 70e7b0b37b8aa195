// AES-128-GCM by Intel's multi-buffer library: its direct functions, which work at once and need no job queue.
#include "rpc/crypto/aead.h"

#ifdef SKUA_HAS_IPSEC_MB

#include <intel-ipsec-mb.h>
#include <string.h>
#include <sys/mman.h>

#include <mutex>
#include <new>
#include <vector>

#include "rpc/base/check.h"

namespace skua::rpc::internal {
namespace {

/// A table of functions for this processor. Only read after it was made; lives as long as the process.
IMB_MGR* functions() {
  static IMB_MGR* const made = []() -> IMB_MGR* {
    IMB_MGR* const manager = alloc_mb_mgr(0);
    if (manager == nullptr) return nullptr;
    // The library has slow code for processors without AES instructions; OpenSSL is no slower there.
    if ((manager->features & IMB_FEATURE_AESNI) == 0 || (manager->features & IMB_FEATURE_PCLMULQDQ) == 0) {
      free_mb_mgr(manager);
      return nullptr;
    }
    init_mb_mgr_auto(manager, nullptr);
    return manager;
  }();
  return made;
}

/// Memory for expanded keys, which core dumps leave out. A place is used again and again; it is never given back.
/// Thread: any.
class KeyMemory {
 public:
  [[nodiscard]] gcm_key_data* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add_block();
    gcm_key_data* const place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(gcm_key_data* place) {
    explicit_bzero(place, sizeof *place);
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
  }

 private:
  static constexpr size_t kBlockBytes = 64 * 1024;
  static constexpr size_t kPlaceBytes = 1024;  // a multiple of the cache line
  static_assert(sizeof(gcm_key_data) <= kPlaceBytes);

  void add_block() {
    void* const block = mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SKUA_CHECK(block != MAP_FAILED, "no memory for keys");
    // Old kernels may not know the advice. Keys are wiped after use in any case.
    static_cast<void>(madvise(block, kBlockBytes, MADV_DONTDUMP));
    for (size_t at = 0; at < kBlockBytes; at += kPlaceBytes) {
      free_.push_back(new (static_cast<std::byte*>(block) + at) gcm_key_data);
    }
  }

  std::mutex mutex_;
  std::vector<gcm_key_data*> free_;  // guarded by mutex_
};

/// Never destroyed: other objects with keys may be destroyed later.
KeyMemory& key_memory() {
  static auto* const memory = new KeyMemory;
  return *memory;
}

class IpsecMbAead final : public Aead {
 public:
  IpsecMbAead(IMB_MGR* library, const AeadKey& key) : library_(library) {
    IMB_AES128_GCM_PRE(library_, key.bytes().data(), key_);
  }
  ~IpsecMbAead() override {
    key_memory().give_back(key_);
    explicit_bzero(&context_, sizeof context_);
  }

  void seal(const AeadNonce& nonce, ByteSpan associated, std::span<const ByteSpan> pieces, std::byte* to,
            std::byte* tag) override {
    SKUA_CHECK(!pieces.empty(), "nothing to seal");
    ByteSpan text = pieces[0];
    if (pieces.size() > 1) {
      const size_t text_bytes = size_of(pieces);
      if (text_bytes > kGatherMaxBytes) {
        seal_pieces(nonce, associated, pieces, to, tag);
        return;
      }
      gather(pieces, to);
      text = {to, text_bytes};
    }
    IMB_AES128_GCM_ENC(library_, key_, &context_, bytes(to), bytes(text.data()), text.size(), bytes(nonce.data()),
                       bytes(associated.data()), associated.size(), bytes(tag), kAeadTagBytes);
  }

  bool open(const AeadNonce& nonce, ByteSpan associated, MutableByteSpan text, const std::byte* tag) override {
    std::array<std::byte, kAeadTagBytes> expected;
    IMB_AES128_GCM_DEC(library_, key_, &context_, bytes(text.data()), bytes(text.data()), text.size(),
                       bytes(nonce.data()), bytes(associated.data()), associated.size(), bytes(expected.data()),
                       kAeadTagBytes);
    return is_equal_tag(expected.data(), tag);
  }

  // GMAC is the mode without text. One call takes two thirds of the time of the library's functions for GMAC alone.
  void sign(const AeadNonce& nonce, ByteSpan associated, std::byte* tag) override {
    IMB_AES128_GCM_ENC(library_, key_, &context_, bytes(tag), bytes(tag), 0, bytes(nonce.data()),
                       bytes(associated.data()), associated.size(), bytes(tag), kAeadTagBytes);
  }

 private:
  /// Up to so many bytes, copying and one call take less time than one call for each piece.
  static constexpr size_t kGatherMaxBytes = 2048;

  static size_t size_of(std::span<const ByteSpan> pieces) {
    size_t bytes = 0;
    for (const ByteSpan piece : pieces) bytes += piece.size();
    return bytes;
  }
  static void gather(std::span<const ByteSpan> pieces, std::byte* to) {
    for (const ByteSpan piece : pieces) {
      copy_bytes(to, piece);
      to += piece.size();
    }
  }
  void seal_pieces(const AeadNonce& nonce, ByteSpan associated, std::span<const ByteSpan> pieces, std::byte* to,
                   std::byte* tag) {
    IMB_AES128_GCM_INIT(library_, key_, &context_, bytes(nonce.data()), bytes(associated.data()), associated.size());
    for (const ByteSpan piece : pieces) {
      IMB_AES128_GCM_ENC_UPDATE(library_, key_, &context_, bytes(to), bytes(piece.data()), piece.size());
      to += piece.size();
    }
    IMB_AES128_GCM_ENC_FINALIZE(library_, key_, &context_, bytes(tag), kAeadTagBytes);
  }

  static uint8_t* bytes(std::byte* at) { return reinterpret_cast<uint8_t*>(at); }
  static const uint8_t* bytes(const std::byte* at) { return reinterpret_cast<const uint8_t*>(at); }

  IMB_MGR* const library_;
  gcm_key_data* const key_ = key_memory().take();
  gcm_context_data context_{};
};

}  // namespace

bool has_ipsec_mb() {
  return functions() != nullptr;
}

std::unique_ptr<Aead> make_ipsec_mb_aead(const AeadKey& key) {
  return std::make_unique<IpsecMbAead>(functions(), key);
}

}  // namespace skua::rpc::internal

#else

namespace skua::rpc::internal {

bool has_ipsec_mb() {
  return false;
}
std::unique_ptr<Aead> make_ipsec_mb_aead(const AeadKey& /*key*/) {
  return nullptr;
}

}  // namespace skua::rpc::internal

#endif
