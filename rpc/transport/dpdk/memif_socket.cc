#include "rpc/transport/dpdk/memif_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_split.h"

namespace skua::rpc::dpdk {

std::string memif_server_socket(const std::string& device) {
  if (device.rfind("net_memif", 0) != 0) return "";
  std::map<std::string, std::string> arguments;
  for (absl::string_view word : absl::StrSplit(device, ',')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    arguments.insert(pair);
  }
  // The driver's defaults: the role is client, the socket is abstract.
  if (arguments["role"] != "server" || arguments["socket-abstract"] != "no") return "";
  return arguments["socket"];
}

void remove_if_abandoned(const std::string& path) {
  struct stat status;
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path || stat(path.c_str(), &status) != 0 ||
      !S_ISSOCK(status.st_mode)) {
    return;
  }
  const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);  // the socket type that memif uses
  if (probe < 0) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool refused =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  close(probe);
  if (refused) unlink(path.c_str());
}

}  // namespace skua::rpc::dpdk
