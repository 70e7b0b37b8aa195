// Ports for servers that a test stops and starts again at the same address.
#ifndef SKUA_TESTS_APP_FREE_PORT_H_
#define SKUA_TESTS_APP_FREE_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <string>

namespace skua::app {

/// A port of the loopback address that was free a moment ago. It lies below the ports that the kernel gives to
/// connections: while the server is away, a connection could take such a port, and the server could not come back.
inline int free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(10'000, 30'000);
  while (true) {
    const int port = ports(random);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (is_free) return port;
  }
}

/// 127.0.0.1 with a free_port().
inline std::string free_address() {
  return "127.0.0.1:" + std::to_string(free_port());
}

}  // namespace skua::app

#endif  // SKUA_TESTS_APP_FREE_PORT_H_
