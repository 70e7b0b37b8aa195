// A real etcd of one member in a temporary directory, on ports that were free a moment ago; killed when it goes out of
// scope. Its files are in memory: beside other tests, a sync of the disk can take longer than etcd waits for its log,
// and etcd then answers "request timed out".
#ifndef SKUA_TESTS_CONTROL_ETCD_PROCESS_H_
#define SKUA_TESTS_CONTROL_ETCD_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/security/credential_files.h"
#include "control/store/etcd_address.h"
#include "rpc/base/check.h"
#include "tests/app/free_port.h"
#include "tests/control/temp_dir.h"

namespace skua::control {

inline constexpr const char* kEtcdProgram = "/usr/bin/etcd";
inline constexpr const char* kNoEtcd =
    "/usr/bin/etcd does not exist: install Debian's etcd-server (deploy/install-deps) to run this test";

class EtcdProcess {
 public:
  [[nodiscard]] static bool is_installed() { return access(kEtcdProgram, X_OK) == 0; }

  /// With limits as Skua wants them, unless `arguments` says otherwise.
  explicit EtcdProcess(std::vector<std::string> arguments = {absl::StrCat("--max-txn-ops=", kEtcdTransactionOps),
                                                             absl::StrCat("--max-request-bytes=", kEtcdRequestBytes)})
      : arguments_(std::move(arguments)), client_port_(app::free_port()), peer_port_(app::free_port()) {
    start();
  }
  /// With TLS for clients: shows `files`, and wants certificates of their authority if `wants_certificates`.
  EtcdProcess(const CredentialFiles& files, bool wants_certificates)
      : tls_(true),
        arguments_({"--cert-file=" + files.certificate, "--key-file=" + files.key}),
        client_port_(app::free_port()),
        peer_port_(app::free_port()) {
    if (wants_certificates) {
      arguments_.insert(arguments_.end(), {"--client-cert-auth=true", "--trusted-ca-file=" + files.authorities});
    }
    start();
  }
  ~EtcdProcess() { kill9(); }
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  /// On the same data and ports.
  void start() {
    SKUA_CHECK(pid_ < 0, "etcd runs already");
    const std::string client = absl::StrCat(tls_ ? "https://" : "http://", endpoint());
    const std::string peer = absl::StrCat("http://127.0.0.1:", peer_port_);
    std::vector<std::string> words = {
        kEtcdProgram, "--name=test", "--log-level=error", absl::StrCat("--data-dir=", dir_.path(), "/etcd"),
        absl::StrCat("--listen-client-urls=", client), absl::StrCat("--advertise-client-urls=", client),
        absl::StrCat("--listen-peer-urls=", peer), absl::StrCat("--initial-advertise-peer-urls=", peer),
        absl::StrCat("--initial-cluster=test=", peer),
        // It gives requests up after 5 s and two elections: a busy machine may need longer.
        "--heartbeat-interval=300", "--election-timeout=3000"};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string log = dir_.path() + "/etcd.log";
    pid_ = fork();
    SKUA_CHECK(pid_ >= 0, "cannot fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(fd, STDOUT_FILENO);
      dup2(fd, STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }

  void kill9() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  [[nodiscard]] std::string endpoint() const { return absl::StrCat("127.0.0.1:", client_port_); }
  [[nodiscard]] EtcdAddress address(const std::string& prefix) const { return {{endpoint()}, prefix, tls_}; }

 private:
  /// Of memory, where the machine has such a directory.
  [[nodiscard]] static std::filesystem::path parent() {
    const char* const memory = "/dev/shm";
    return access(memory, W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }

  const TempDir dir_{parent()};
  const bool tls_ = false;
  std::vector<std::string> arguments_;
  const int client_port_;
  const int peer_port_;
  pid_t pid_ = -1;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_ETCD_PROCESS_H_
