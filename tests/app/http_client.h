// A client of the tests' own for a server on loopback, of plain sockets that block.
#ifndef SKUA_TESTS_APP_HTTP_CLIENT_H_
#define SKUA_TESTS_APP_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/base/owned_fd.h"

namespace skua::app {

/// `address`: "127.0.0.1:PORT".
inline OwnedFd connect_to(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // No test waits for ever.
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return socket;
}

/// False: the server has closed.
inline bool send_bytes(const OwnedFd& socket, std::string_view bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Until the server closes.
inline std::string receive_all(const OwnedFd& socket) {
  std::string reply;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::recv(socket.get(), buffer.data(), buffer.size(), 0)) > 0) {
    reply.append(buffer.data(), static_cast<size_t>(got));
  }
  EXPECT_FALSE(got < 0 && errno == EAGAIN) << "no answer in a minute";
  return reply;
}

inline std::string answer_to(const std::string& address, std::string_view request) {
  const OwnedFd socket = connect_to(address);
  EXPECT_TRUE(send_bytes(socket, request));
  return receive_all(socket);
}

}  // namespace skua::app

#endif  // SKUA_TESTS_APP_HTTP_CLIENT_H_
