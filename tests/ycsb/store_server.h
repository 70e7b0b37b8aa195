// A store's server of the test's own: ephemeral port, temporary directory, stopped at the end. Which program, and how
// it is told its port, the classes derived from it say.
#ifndef SKUA_TESTS_YCSB_STORE_SERVER_H_
#define SKUA_TESTS_YCSB_STORE_SERVER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/app/free_port.h"

namespace skua::ycsb {

class StoreServer {
 public:
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer() {
    stop(SIGTERM);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  [[nodiscard]] bool running() const { return pid_ > 0; }
  [[nodiscard]] int port() const { return port_; }

  void stop(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 protected:
  StoreServer() = default;

  static bool on_path(const std::string& program) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread is started
    return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
  }

  /// `words_of(port)` is the command line.
  template <typename WordsOf>
  void start(const WordsOf& words_of) {
    std::string directory = (std::filesystem::temp_directory_path() / "skua-store-XXXXXX").string();
    if (mkdtemp(directory.data()) == nullptr) return;
    directory_ = directory;
    // Between choosing a free port and the server binding it, somebody else may take it: try again.
    for (int attempt = 0; attempt < 5 && pid_ <= 0; ++attempt) {
      const int port = app::free_port();
      start(port, words_of(std::to_string(port)));
    }
  }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }

  void start(int port, std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int null = open("/dev/null", O_RDWR);
      if (getppid() != parent || null < 0 || chdir(directory_.c_str()) != 0) _exit(1);
      dup2(null, STDOUT_FILENO);
      dup2(null, STDERR_FILENO);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    if (pid < 0) return;
    for (int i = 0; i < 3000; ++i) {
      if (waitpid(pid, nullptr, WNOHANG) == pid) return;
      if (answers(port)) {
        pid_ = pid;
        port_ = port;
        return;
      }
      usleep(10'000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  static bool answers(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    return connected;
  }

  std::string directory_;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace skua::ycsb

#endif  // SKUA_TESTS_YCSB_STORE_SERVER_H_
