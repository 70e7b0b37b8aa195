// skua-control as a process: what it prints, how it ends, what it leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/client/admin_client.h"
#include "control/store/etcd_store.h"
#include "tests/app/free_port.h"
#include "tests/control/certificate_office.h"
#include "tests/control/etcd_process.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using testing::HasSubstr;

/// A child process whose stderr is read here. Killed when it goes out of scope.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SKUA_CONTROL_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int pipe_fds[2] = {-1, -1};
    EXPECT_EQ(pipe(pipe_fds), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDERR_FILENO);
      close(pipe_fds[0]);
      close(pipe_fds[1]);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(pipe_fds[1]);
    stderr_fd_ = pipe_fds[0];
  }
  ~Process() {
    send_signal(SIGKILL);
    wait();
    close(stderr_fd_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// The next line of stderr; empty at its end.
  std::string line() {
    std::string text;
    char c = 0;
    while (read(stderr_fd_, &c, 1) == 1 && c != '\n') text.push_back(c);
    return text;
  }
  /// Lines until one contains `wanted`; that line, or empty.
  std::string line_with(const std::string& wanted) {
    while (true) {
      const std::string text = line();
      if (text.empty() || text.find(wanted) != std::string::npos) return text;
    }
  }
  void send_signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  /// The exit code; -1 if a signal ended it.
  int wait() {
    if (pid_ <= 0) return exit_code_;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return exit_code_;
  }

 private:
  pid_t pid_ = -1;
  int stderr_fd_ = -1;
  int exit_code_ = -1;
};

std::string field(const std::string& line, const std::string& key) {
  const size_t start = line.find(key + "=");
  if (start == std::string::npos) return {};
  const size_t value = start + key.size() + 1;
  return line.substr(value, line.find(' ', value) - value);
}

class ControlProgramTest : public testing::Test {
 protected:
  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--data-dir", dir_.path(), "--listen-address", "127.0.0.1:0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Expects the exit code and one line that contains `wanted`.
  static void expect_refusal(const std::vector<std::string>& arguments, const std::string& wanted, int code = 2) {
    Process process(arguments);
    const std::string first = process.line();
    EXPECT_THAT(first, HasSubstr(wanted));
    EXPECT_EQ(process.line(), "") << "more than one line";
    EXPECT_EQ(process.wait(), code);
  }

  TempDir dir_;
};

TEST_F(ControlProgramTest, ServesUntilAskedToStop) {
  for (const int number : {SIGTERM, SIGINT}) {
    Process process(arguments());
    const std::string serving = process.line_with("serving");
    AdminClient admin(field(serving, "address"));
    const auto status = admin.status();
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->cluster_id, field(serving, "cluster_id"));
    process.send_signal(number);
    EXPECT_EQ(process.wait(), 0);
  }
}

TEST_F(ControlProgramTest, ClusterIdSurvivesRestartAndKill) {
  std::string first;
  {
    Process process(arguments());
    first = field(process.line_with("serving"), "cluster_id");
    process.send_signal(SIGKILL);
    EXPECT_EQ(process.wait(), -1);
  }
  Process process(arguments({"--cluster-id", first}));
  EXPECT_EQ(field(process.line_with("serving"), "cluster_id"), first);
}

TEST_F(ControlProgramTest, UnknownOption) {
  expect_refusal(arguments({"--listen-adress", "x"}), "did you mean --listen-address?");
}

TEST_F(ControlProgramTest, PortInUse) {
  Process process(arguments());
  const std::string address = field(process.line_with("serving"), "address");
  TempDir other;
  expect_refusal({"--data-dir", other.path(), "--listen-address", address}, address);
}

TEST_F(ControlProgramTest, BadAddress) {
  expect_refusal({"--data-dir", dir_.path(), "--listen-address", "nonsense"}, "has no port: write HOST:PORT");
}

TEST_F(ControlProgramTest, WithoutCertificates_OnlyThisMachineIsLetIn) {
  const std::vector<std::string> open = {"--data-dir", dir_.path(), "--listen-address", "0.0.0.0:0"};
  expect_refusal(open, "--listen-address 0.0.0.0:0 can be reached from other machines");
  expect_refusal(open, "skuactl cert issue control c1");
  std::vector<std::string> unsafe = open;
  unsafe.insert(unsafe.end(), {"--security", "off-unsafe"});
  Process process(unsafe);
  EXPECT_THAT(process.line_with("security is off"), HasSubstr("whoever reaches --listen-address 0.0.0.0:0"));
}

TEST_F(ControlProgramTest, DataDirectoryInUse) {
  Process process(arguments());
  ASSERT_THAT(process.line_with("serving"), HasSubstr("address"));
  expect_refusal(arguments(), "in use by process");
}

TEST_F(ControlProgramTest, DataDirectoryOfAnotherCluster) {
  std::string id;
  {
    Process process(arguments());
    id = field(process.line_with("serving"), "cluster_id");
  }
  expect_refusal(arguments({"--cluster-id", "00000000-0000-4000-8000-000000000000"}), "belongs to cluster " + id);
  expect_refusal(arguments({"--cluster-name", "other"}), "belongs to cluster skua");
}

TEST_F(ControlProgramTest, DataDirectoryOfANode) {
  std::ofstream(dir_.path() + "/identity.toml")
      << "role = \"node\"\nformat_version = 1\nnode_uuid = \"00000000-0000-4000-8000-000000000001\"\n"
         "cluster_id = \"\"\n";
  expect_refusal(arguments(), "belongs to a skuad, not to a skua-control");
}

TEST_F(ControlProgramTest, MissingMetadata) {
  {
    Process process(arguments());
    ASSERT_THAT(process.line_with("serving"), HasSubstr("address"));
    process.send_signal(SIGTERM);
    ASSERT_EQ(process.wait(), 0);
  }
  std::filesystem::remove_all(dir_.path() + "/metadata");
  expect_refusal(arguments(), "its metadata is missing");
}

TEST_F(ControlProgramTest, MetadataElsewhere) {
  expect_refusal(arguments({"--metadata", "zookeeper"}), "Give etcd://HOST:PORT");
  expect_refusal(arguments({"--metadata", absl::StrCat("etcd://127.0.0.1:", app::free_port(), "/p")}),
                 "cannot be reached. Start it there, or give its addresses", 1);
}

TEST_F(ControlProgramTest, EtcdWithTls) {
  expect_refusal(arguments({"--metadata", "etcds://127.0.0.1:1/p"}), "etcds:// needs --etcd-ca");
  expect_refusal(arguments({"--etcd-ca", "ca.pem"}), "--metadata is embedded: write etcds://");
  if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
  TempDir files;
  CertificateOffice office(files.path(), "office");
  CertificateOffice stranger(files.path(), "stranger");
  const ValidTime today = {CertificateOffice::now(), CertificateOffice::now() + CertificateOffice::kDay};
  EtcdProcess etcd(office.issue(Role::kControl, "etcd", today, {"127.0.0.1"}), true);
  const CredentialFiles own = office.issue(Role::kControl, "c1");
  const std::string where = etcd.address("p").text();
  ASSERT_TRUE(EtcdStore::open({.address = etcd.address("p"),
                               .tls = {own.authorities, own.certificate, own.key},
                               .open_timeout_ns = kGenerous})
                  .ok());
  const auto with = [&](const CredentialFiles& shown, const std::string& ca, const std::string& metadata) {
    return arguments(
        {"--metadata", metadata, "--etcd-ca", ca, "--etcd-cert", shown.certificate, "--etcd-key", shown.key});
  };
  const CredentialFiles other = stranger.issue(Role::kControl, "c1");
  expect_refusal(with(own, other.authorities, where), "No authority in --etcd-ca has signed etcd's certificate");
  expect_refusal(with(other, own.authorities, where), "its --trusted-ca-file must have the authority of --etcd-cert");
  expect_refusal(arguments({"--metadata", where, "--etcd-ca", own.authorities}), "give --etcd-cert and --etcd-key");
  expect_refusal(arguments({"--metadata", absl::StrCat("etcd://", etcd.endpoint(), "/p")}),
                 "write etcds:// in --metadata, and give --etcd-ca");
  EtcdProcess plain;
  ASSERT_TRUE(EtcdStore::open({.address = plain.address("p"), .open_timeout_ns = kGenerous}).ok());
  expect_refusal(with(own, own.authorities, absl::StrCat("etcds://", plain.endpoint(), "/p")),
                 "an etcd without TLS: write etcd:// in --metadata");
  Process process(with(own, own.authorities, where));
  EXPECT_THAT(process.line_with("serving"), HasSubstr("metadata=etcds://"));
  process.send_signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

TEST_F(ControlProgramTest, EmbeddedMetadataIsNotLeftBehind) {
  {
    Process process(arguments());
    ASSERT_THAT(process.line_with("serving"), HasSubstr("address"));
  }
  expect_refusal(arguments({"--metadata", "etcd://127.0.0.1:1/p"}), "has embedded metadata of a cluster");
}

TEST_F(ControlProgramTest, TwoClustersOnOneEtcdPrefix) {
  if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
  EtcdProcess etcd;
  const std::string one = etcd.address("one").text();
  ASSERT_TRUE(EtcdStore::open({.address = etcd.address("one"), .open_timeout_ns = kGenerous}).ok());
  std::string id;
  {
    Process process(arguments({"--metadata", one}));
    id = field(process.line_with("serving"), "cluster_id");
    process.send_signal(SIGTERM);
    ASSERT_EQ(process.wait(), 0);
  }
  TempDir second;
  {
    Process process({"--data-dir", second.path(), "--listen-address", "127.0.0.1:0", "--metadata", one});
    EXPECT_EQ(field(process.line_with("serving"), "cluster_id"), id) << "a second process of the same cluster";
  }
  TempDir other;
  const std::vector<std::string> stranger = {"--data-dir", other.path(), "--listen-address", "127.0.0.1:0",
                                             "--metadata", one,          "--cluster-name",   "other"};
  expect_refusal(stranger, one + " belongs to cluster skua (" + id + "), but cluster name other was asked for");
  // What belonged to a cluster does not make another one where there is none.
  expect_refusal(arguments({"--metadata", etcd.address("two").text()}), "holds no cluster");
}

}  // namespace
}  // namespace skua::control
