// How long the cipher alone takes for a packet of N bytes: what sealed frames cost at least.
//
//   cipher_floor 976           prints one line of JSON: seal_ns, open_ns, sign_ns (best of many measurements)
//
// Sealing reads a header of 32 bytes and the rest from memory of a megabyte, as of a large message, and writes to one
// of 64 frames. tests/perf/packets_ratios.py shows what the figures leave of a rate without sealed packets.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "rpc/crypto/aead.h"

namespace skua::rpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kHeaderBytes = 32;
constexpr size_t kAssociatedBytes = 16;
constexpr size_t kMessageBytes = size_t{1} << 20;
constexpr size_t kFrames = 64;
constexpr size_t kPacketMax = 64 * 1024;
constexpr int kMeasurements = 200;
constexpr int kPerMeasurement = 200;

class Floor {
 public:
  explicit Floor(size_t bytes) : bytes_(bytes), frames_(kFrames * bytes) {}

  [[nodiscard]] double seal_ns() {
    return best_ns([this](std::byte* frame) {
      const std::array<ByteSpan, 2> pieces = {header_, next_piece()};
      aead_->seal(next_nonce(), associated_, pieces, frame, tag_.data());
    });
  }
  /// Garbage is opened: the cipher does the same work before it compares tags.
  [[nodiscard]] double open_ns() {
    return best_ns([this](std::byte* frame) {
      genuine_ += aead_->open(next_nonce(), associated_, MutableByteSpan(frame, bytes_), tag_.data()) ? 1U : 0U;
    });
  }
  [[nodiscard]] double sign_ns() {
    return best_ns([this](std::byte* frame) { aead_->sign(next_nonce(), ByteSpan(frame, bytes_), tag_.data()); });
  }

 private:
  template <typename Work>
  [[nodiscard]] double best_ns(Work work) {
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < kMeasurements; ++i) {
      const Clock::time_point begin = Clock::now();
      for (size_t k = 0; k < kPerMeasurement; ++k) work(frames_.data() + k % kFrames * bytes_);
      best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kPerMeasurement);
    }
    return best;
  }
  [[nodiscard]] const AeadNonce& next_nonce() {
    store_le(nonce_.data(), ++number_);
    return nonce_;
  }
  [[nodiscard]] ByteSpan next_piece() {
    const size_t size = bytes_ - kHeaderBytes;
    if (at_ + size > message_.size()) at_ = 0;
    const ByteSpan piece = ByteSpan(message_).subspan(at_, size);
    at_ += size;
    return piece;
  }

  const size_t bytes_;
  const std::unique_ptr<Aead> aead_ = make_best_aead(AeadKey{});
  std::vector<std::byte> frames_;
  const std::vector<std::byte> message_ = std::vector<std::byte>(kMessageBytes, std::byte{1});
  const std::array<std::byte, kHeaderBytes> header_{};
  const std::array<std::byte, kAssociatedBytes> associated_{};
  std::array<std::byte, kAeadTagBytes> tag_{};
  AeadNonce nonce_{};
  uint64_t number_ = 0;
  uint64_t genuine_ = 0;
  size_t at_ = 0;
};

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  const size_t bytes = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (bytes <= skua::rpc::kHeaderBytes || bytes > skua::rpc::kPacketMax) {
    std::fprintf(stderr, "usage: cipher_floor BYTES (33 to 65536)\n");
    return 2;
  }
  skua::rpc::Floor floor(bytes);
  const double seal_ns = floor.seal_ns();
  const double open_ns = floor.open_ns();
  const double sign_ns = floor.sign_ns();
  std::printf("{\"seal_ns\": %.1f, \"open_ns\": %.1f, \"sign_ns\": %.1f}\n", seal_ns, open_ns, sign_ns);
  return 0;
}
