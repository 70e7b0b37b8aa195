// What the kernel's TCP alone can do of what small calls need: two threads hand blocks of bytes back and forth over a
// loopback connection, each with one system call to receive and one to send, and do nothing else.
//
//   tcp_floor 0 1 744 2        processors 0 and 1, blocks of 744 bytes (a bundle of 16 calls of 32 bytes), two in
//                              flight; prints blocks per second, there and back
//
// An engine over the same kernel cannot make more bundles per second than that.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMeasurement = std::chrono::seconds(2);
constexpr long kInFlightBytesMax = 65'536;
constexpr size_t kReceiveBytes = size_t{1} << 18;

bool pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

/// Two ends of a connection; false: the kernel gives none.
bool connect_loopback(std::array<int, 2>& ends) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* at = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof address;
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, at, bytes) != 0 || listen(listener, 1) != 0 || getsockname(listener, at, &bytes) != 0 ||
      connect(ends[0], at, bytes) != 0) {
    return false;
  }
  ends[1] = accept(listener, nullptr, nullptr);
  close(listener);
  const int on = 1;
  for (const int end : ends) {
    if (setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) return false;
  }
  return true;
}

/// One end: a block goes out for each that came.
class End {
 public:
  End(int socket, size_t block_bytes) : socket_(socket), block_bytes_(block_bytes) {}

  bool send_block() {
    const ssize_t sent = send(socket_, memory_.data(), block_bytes_, MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(block_bytes_);
  }
  /// False: the other end is gone.
  bool turn() {
    const ssize_t got = recv(socket_, memory_.data(), memory_.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got > 0) received_ += static_cast<size_t>(got);
    for (; received_ >= block_bytes_; received_ -= block_bytes_) {
      ++blocks_;
      if (!send_block()) return false;
    }
    return true;
  }
  [[nodiscard]] uint64_t blocks() const { return blocks_; }

 private:
  const int socket_;
  const size_t block_bytes_;
  std::vector<char> memory_ = std::vector<char>(kReceiveBytes);
  size_t received_ = 0;
  uint64_t blocks_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: tcp_floor PROCESSOR PROCESSOR BYTES IN_FLIGHT\n", stderr);
    return 2;
  }
  const int here = std::atoi(argv[1]);
  const int there = std::atoi(argv[2]);
  const long block_bytes = std::atol(argv[3]);
  const int in_flight = std::atoi(argv[4]);
  // What is in flight must fit into the kernel's buffers: both ends could wait for room in them otherwise.
  if (block_bytes < 1 || in_flight < 1 || in_flight > 64 || block_bytes > kInFlightBytesMax / in_flight) {
    std::fputs("tcp_floor: 1 to 64 blocks are in flight, with 1 to 65536 bytes together\n", stderr);
    return 2;
  }
  std::array<int, 2> ends{};
  if (!connect_loopback(ends)) {
    std::perror("tcp_floor: no connection over loopback");
    return 1;
  }
  std::thread echo([&] {
    End end(ends[1], static_cast<size_t>(block_bytes));
    if (!pin(there)) return static_cast<void>(shutdown(ends[1], SHUT_RDWR));
    while (end.turn()) {
    }
  });
  End end(ends[0], static_cast<size_t>(block_bytes));
  bool is_well = pin(here);
  for (int i = 0; i < in_flight && is_well; ++i) is_well = end.send_block();
  const auto begin = Clock::now();
  while (is_well && Clock::now() - begin < kMeasurement) is_well = end.turn();
  const std::chrono::duration<double> took = Clock::now() - begin;
  shutdown(ends[0], SHUT_RDWR);
  echo.join();
  if (!is_well) {
    std::fprintf(stderr, "tcp_floor: the connection broke, or there is no processor %d or %d\n", here, there);
    return 1;
  }
  std::printf("%.0f\n", static_cast<double>(end.blocks()) / took.count());
  return 0;
}
