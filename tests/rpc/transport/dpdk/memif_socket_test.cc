#include "rpc/transport/dpdk/memif_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace skua::rpc::dpdk {
namespace {

TEST(MemifSocket, ServerSocket_OnlyOfServersInTheFileSystem) {
  EXPECT_EQ(memif_server_socket("net_memif0,role=server,socket=/run/a.sock,socket-abstract=no"), "/run/a.sock");
  EXPECT_EQ(memif_server_socket("net_memif1,socket-abstract=no,socket=/run/b.sock,id=3,role=server"), "/run/b.sock");
  EXPECT_EQ(memif_server_socket("net_memif0,role=server,socket=/run/a.sock"), "");
  EXPECT_EQ(memif_server_socket("net_memif0,role=client,socket=/run/a.sock,socket-abstract=no"), "");
  EXPECT_EQ(memif_server_socket("net_af_packet0,iface=eth0"), "");
  EXPECT_EQ(memif_server_socket("0000:3b:00.0"), "");
}

class RemoveIfAbandoned : public testing::Test {
 protected:
  RemoveIfAbandoned() : path_(testing::TempDir() + "skua-memif-" + std::to_string(getpid())) { unlink(path_.c_str()); }
  ~RemoveIfAbandoned() override { unlink(path_.c_str()); }

  int listen_there() const {
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    return listener;
  }

  const std::string path_;
};

TEST_F(RemoveIfAbandoned, SocketOfTheDead_IsRemoved) {
  close(listen_there());
  ASSERT_TRUE(std::filesystem::exists(path_));
  remove_if_abandoned(path_);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RemoveIfAbandoned, SocketInUse_Stays) {
  const int listener = listen_there();
  remove_if_abandoned(path_);
  EXPECT_TRUE(std::filesystem::exists(path_));
  close(listener);
}

TEST_F(RemoveIfAbandoned, OtherFiles_Stay) {
  std::ofstream(path_) << "not a socket";
  remove_if_abandoned(path_);
  EXPECT_TRUE(std::filesystem::exists(path_));
  remove_if_abandoned("/nowhere/at/all");
  remove_if_abandoned("");
}

}  // namespace
}  // namespace skua::rpc::dpdk
