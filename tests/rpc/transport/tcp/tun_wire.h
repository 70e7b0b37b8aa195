// TunWire: two network namespaces, and between them a wire that the test carries packet by packet.
//
//   namespace 0            test                 namespace 1
//   10.93.0.1  tun <--> carry(): drops <--> tun  10.93.0.2
//
// The kernel's TCP runs in both, for real. Needs root; is_open() tells. Thread: the test's, which moves between the
// namespaces.
#ifndef SKUA_TESTS_RPC_TRANSPORT_TCP_TUN_WIRE_H_
#define SKUA_TESTS_RPC_TRANSPORT_TCP_TUN_WIRE_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "rpc/transport/tcp/socket.h"

namespace skua::rpc::tcp {

class TunWire {
 public:
  static constexpr std::array<const char*, 2> kAddresses = {"10.93.0.1", "10.93.0.2"};

  TunWire() : home_(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    for (size_t side = 0; side < 2; ++side) {
      if (!open_side(side)) break;
      opened_ = side == 1;
    }
    leave();
  }
  ~TunWire() { leave(); }
  TunWire(const TunWire&) = delete;
  TunWire& operator=(const TunWire&) = delete;

  [[nodiscard]] bool is_open() const { return opened_; }

  /// Sockets that are made until leave() belong to that side.
  void enter(size_t side) const { (void)setns(spaces_[side].get(), CLONE_NEWNET); }
  void leave() const { (void)setns(home_.get(), CLONE_NEWNET); }

  /// Carries all packets that wait; `drops(from, packet)`: this one is lost.
  void carry(const std::function<bool(size_t, std::string_view)>& drops) {
    for (size_t from = 0; from < 2; ++from) {
      while (true) {
        const ssize_t size = read(tuns_[from].get(), buffer_.data(), buffer_.size());
        if (size <= 0) break;
        const std::string_view packet(buffer_.data(), static_cast<size_t>(size));
        if (!drops(from, packet)) (void)!write(tuns_[1 - from].get(), packet.data(), packet.size());
      }
    }
  }

 private:
  bool open_side(size_t side) {
    if (unshare(CLONE_NEWNET) != 0) return false;
    spaces_[side] = UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    tuns_[side] = UniqueFd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    ifreq request{};
    std::strcpy(request.ifr_name, "tun0");
    // With a header in front of each packet that says whose work its checksum is: so the kernel may leave bodies where
    // they lie.
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tuns_[side].get(), TUNSETIFF, &request) != 0) return false;
    if (ioctl(tuns_[side].get(), TUNSETOFFLOAD, TUN_F_CSUM) != 0) return false;
    UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto set_address = [&](unsigned long what, const char* address) {
      sockaddr_in at{};
      at.sin_family = AF_INET;
      inet_pton(AF_INET, address, &at.sin_addr);
      std::memcpy(&request.ifr_addr, &at, sizeof at);
      return ioctl(any.get(), what, &request) == 0;
    };
    if (!set_address(SIOCSIFADDR, kAddresses[side]) || !set_address(SIOCSIFNETMASK, "255.255.255.0")) return false;
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
  }

  UniqueFd home_;
  std::array<UniqueFd, 2> spaces_;
  std::array<UniqueFd, 2> tuns_;
  bool opened_ = false;
  std::array<char, 70'000> buffer_;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_TESTS_RPC_TRANSPORT_TCP_TUN_WIRE_H_
