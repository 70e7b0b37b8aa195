// What the cipher alone costs a side of a TCP connection: what sealed frames cost at least, where the kernel carries
// them.
//
//   cipher_exchange 1106 2692      prints one line of JSON: plain_ns, ciphered_ns, side_ns (medians of many rounds)
//
// Two threads, each on a processor of its own, exchange a request and a response of these sizes over loopback, and
// never sleep. Rounds alternate: as the bytes are, and with the cipher, which seals and opens each of the two once.
// There are no keys to choose, no numbers, no windows and no frames: just the cipher. Between two of its calls the
// kernel's code and data push the cipher's out of the nearest caches, as they do in a cluster; cipher_floor.cc measures
// the cipher with warm caches. side_ns is what a side pays for sealing one message and opening the other.
// tests/perf/packets_ratios.py shows what that leaves of a rate without sealed packets.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "rpc/crypto/aead.h"

namespace skua::rpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAssociatedBytes = 16;
constexpr size_t kMessageMin = kAeadTagBytes + 1;
constexpr size_t kMessageMax = 64 * 1024;
constexpr int kRounds = 60;  // of each kind
constexpr int kExchangesPerRound = 2000;

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  SKUA_CHECK(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0, "this needs two processors");
}

/// Two connected sockets.
std::pair<int, int> connect_loopback() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const to = reinterpret_cast<sockaddr*>(&address);
  SKUA_CHECK(bind(listener, to, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, to, &size) == 0,
             "cannot listen on loopback");
  const int opener = socket(AF_INET, SOCK_STREAM, 0);
  SKUA_CHECK(connect(opener, to, size) == 0, "cannot connect to loopback");
  const int acceptor = accept(listener, nullptr, nullptr);
  SKUA_CHECK(acceptor >= 0, "cannot accept");
  close(listener);
  const int on = 1;
  for (const int end : {opener, acceptor}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {opener, acceptor};
}

/// One end of the connection. Thread: one.
class Side {
 public:
  Side(int end, size_t sends_bytes, size_t receives_bytes) : end_(end), out_(sends_bytes), in_(receives_bytes) {}

  void send_one(bool ciphered) {
    const MutableByteSpan text = std::span(out_).subspan(kAeadTagBytes);
    const ByteSpan piece = text;
    if (ciphered) seals_->seal(next_nonce(), associated_, std::span(&piece, 1), text.data(), out_.data());
    // Nothing else is in the socket's buffer, so it takes the whole.
    SKUA_CHECK(send(end_, out_.data(), out_.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(out_.size()), "cannot send");
  }
  void receive_one(bool ciphered) {
    for (size_t have = 0; have < in_.size();) {
      const ssize_t got = recv(end_, in_.data() + have, in_.size() - have, MSG_DONTWAIT);
      if (got > 0) have += static_cast<size_t>(got);
    }
    // Both ends count messages alike, so they draw the same nonces.
    const MutableByteSpan text = std::span(in_).subspan(kAeadTagBytes);
    if (ciphered) SKUA_CHECK(opens_->open(next_nonce(), associated_, text, in_.data()), "a message was not genuine");
  }

 private:
  [[nodiscard]] const AeadNonce& next_nonce() {
    store_le(nonce_.data(), ++number_);
    return nonce_;
  }

  const int end_;
  std::vector<std::byte> out_;  // a tag, and the text
  std::vector<std::byte> in_;
  const std::unique_ptr<Aead> seals_ = make_best_aead(AeadKey{});
  const std::unique_ptr<Aead> opens_ = make_best_aead(AeadKey{});
  const std::array<std::byte, kAssociatedBytes> associated_{};
  AeadNonce nonce_{};
  uint64_t number_ = 0;
};

double median(std::vector<double>& of) {
  std::ranges::nth_element(of, of.begin() + static_cast<ptrdiff_t>(of.size() / 2));
  return of[of.size() / 2];
}

void measure(size_t request_bytes, size_t response_bytes) {
  const auto [opener, acceptor] = connect_loopback();
  std::thread server([end = acceptor, request_bytes, response_bytes] {
    stay_on(0);
    Side side(end, response_bytes, request_bytes);
    for (int round = 0; round < 2 * kRounds; ++round) {
      for (int i = 0; i < kExchangesPerRound; ++i) {
        side.receive_one(round % 2 == 1);
        side.send_one(round % 2 == 1);
      }
    }
  });
  stay_on(1);
  Side side(opener, request_bytes, response_bytes);
  std::array<std::vector<double>, 2> took_ns;
  for (int round = 0; round < 2 * kRounds; ++round) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kExchangesPerRound; ++i) {
      side.send_one(round % 2 == 1);
      side.receive_one(round % 2 == 1);
    }
    const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
    took_ns[static_cast<size_t>(round % 2)].push_back(took.count() / kExchangesPerRound);
  }
  server.join();
  close(opener);
  close(acceptor);
  const double plain_ns = median(took_ns[0]);
  const double ciphered_ns = median(took_ns[1]);
  std::printf("{\"plain_ns\": %.0f, \"ciphered_ns\": %.0f, \"side_ns\": %.0f}\n", plain_ns, ciphered_ns,
              (ciphered_ns - plain_ns) / 2);
}

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  using skua::rpc::kMessageMax;
  using skua::rpc::kMessageMin;
  const size_t request_bytes = argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const size_t response_bytes = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (std::min(request_bytes, response_bytes) < kMessageMin || std::max(request_bytes, response_bytes) > kMessageMax) {
    std::fprintf(stderr, "usage: cipher_exchange REQUEST_BYTES RESPONSE_BYTES (%zu to %zu)\n", kMessageMin,
                 kMessageMax);
    return 2;
  }
  skua::rpc::measure(request_bytes, response_bytes);
  return 0;
}
