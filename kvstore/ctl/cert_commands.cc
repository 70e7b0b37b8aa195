// skuactl cert init, issue, show: make a cluster's authority and issue certificates. They work on files and need no
// cluster. What needs it: join_commands.cc, revocation_commands.cc.
//
//   DIR/ca.pem, ca.key        the authority (cert init); ca.key never leaves the machine where certificates are issued
//   OUT/NAME.pem, NAME.key    what a program needs (cert issue), besides ca.pem
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "app/exit.h"
#include "app/file.h"
#include "app/uuid.h"
#include "app/value_text.h"
#include "control/security/certificates.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

using control::CertificateAndKey;
using control::CertificateInfo;
using control::Identity;
using control::Role;

constexpr control::WallSeconds kDayS = 86'400;
constexpr size_t kFileBytesMax = 1 << 20;
constexpr mode_t kSecret = 0600;
constexpr mode_t kPublic = 0644;

struct InitArguments {
  std::string directory;
  std::string cluster_id;
  int days = 3650;
};

/// In the place of a role: of no member of the cluster.
constexpr const char* kServer = "server";

struct ShowArguments {
  std::string path;
  int days_left = 0;
};

struct IssueArguments {
  std::string role;
  std::string name;
  std::string authority = ".";
  std::string out = ".";
  std::string hosts;
  int days = 365;
};

absl::Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return absl::ErrnoToStatus(errno, path);
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

/// Writes a file that was not there: a key that is overwritten is lost.
absl::Status write_new(const std::string& path, std::string_view text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) {
    return errno == EEXIST
               ? absl::AlreadyExistsError(absl::StrCat(path, " is there already: give another place, or move it away"))
               : absl::ErrnoToStatus(errno, path);
  }
  absl::Status status = write_all(fd, text, path);
  if (status.ok() && fsync(fd) != 0) status = absl::ErrnoToStatus(errno, path);
  if (close(fd) != 0 && status.ok()) status = absl::ErrnoToStatus(errno, path);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::Status make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? absl::InvalidArgumentError(absl::StrCat(path, " cannot be made: ", error.message()))
               : absl::OkStatus();
}

/// The pair of files, the key first: a certificate without its key would look as if it could be used.
absl::Status write_pair(const std::string& stem, const CertificateAndKey& made) {
  const std::string key_path = stem + ".key";
  if (absl::Status status = write_new(key_path, made.key, kSecret); !status.ok()) return status;
  absl::Status status = write_new(stem + ".pem", made.certificate, kPublic);
  if (!status.ok()) unlink(key_path.c_str());
  return status;
}

/// Writes NAME.pem and NAME.key into a directory, which is made if it is not there. Returns their path without the
/// ending. Ends the program if that cannot be done.
std::string write_into(const std::string& directory, const std::string& name, const CertificateAndKey& made) {
  must(make_directory(directory));
  std::string stem = absl::StrCat(directory, "/", name);
  must(write_pair(stem, made));
  return stem;
}

int init(const Globals& /*globals*/, const InitArguments& arguments) {
  const std::string cluster_id = arguments.cluster_id.empty() ? app::random_uuid() : arguments.cluster_id;
  const control::WallSeconds now = std::time(nullptr);
  const CertificateAndKey made =
      must_be_valid(control::make_authority(cluster_id, {now, now + arguments.days * kDayS}), "--cluster-id: ");
  write_into(arguments.directory, "ca", made);
  absl::PrintF("%s/ca.pem, ca.key: the authority of cluster %s, valid until %s\n", arguments.directory, cluster_id,
               control::wall_time_text(now + arguments.days * kDayS));
  absl::PrintF("Keep ca.key secret and safe: whoever has it can be anybody in the cluster.\n");
  absl::PrintF("Next: skuactl cert issue control NAME --authority %s\n", arguments.directory);
  return app::kExitOk;
}

CertificateAndKey read_authority(const std::string& directory) {
  CertificateAndKey authority;
  for (const auto& [name, to] : {std::pair{"/ca.pem", &authority.certificate}, {"/ca.key", &authority.key}}) {
    absl::StatusOr<std::string> text = app::read_file(directory + name, kFileBytesMax);
    must(with_words("", text.status(), ": give --authority the directory that skuactl cert init made"));
    *to = *std::move(text);
  }
  return authority;
}

/// Says so if a certificate ends earlier than the user asked for: with its authority.
void note_early_end(const CertificateInfo& made, int days, control::WallSeconds now) {
  if (made.valid.until >= now + days * kDayS) return;
  print_notice(absl::StrCat("the authority expires at ", control::wall_time_text(made.valid.until),
                            ", and so does the certificate: --days ", days, " is more"));
}

/// For clients that are no programs of the cluster.
int issue_server(const IssueArguments& arguments, const CertificateAndKey& authority,
                 const std::vector<std::string>& hosts) {
  if (hosts.empty()) {
    fail_usage(
        "--hosts: give the names and addresses by which clients reach the server, for example "
        "--hosts localhost,127.0.0.1");
  }
  const control::WallSeconds now = std::time(nullptr);
  const CertificateAndKey made =
      must(control::issue_server_certificate(authority, arguments.name, hosts, {now, now + arguments.days * kDayS}));
  const std::string stem = write_into(arguments.out, arguments.name, made);
  const CertificateInfo info = *control::inspect_any_certificate(made.certificate);
  absl::PrintF("%s.pem, %s.key: a server at %s, no member of the cluster, valid until %s\n", stem, arguments.name,
               absl::StrJoin(hosts, ", "), control::wall_time_text(info.valid.until));
  absl::PrintF("Use: skua-gateway --client-tls-cert %s.pem --client-tls-key %s.key; its clients believe %s/ca.pem\n",
               stem, stem, arguments.authority);
  note_early_end(info, arguments.days, now);
  return app::kExitOk;
}

int issue(const Globals& /*globals*/, const IssueArguments& arguments) {
  const CertificateAndKey authority = read_authority(arguments.authority);
  const CertificateInfo of_authority = must(control::inspect_certificate(authority.certificate));
  std::vector<std::string> hosts;
  if (!arguments.hosts.empty()) hosts = absl::StrSplit(arguments.hosts, ',');
  const bool is_server = arguments.role == kServer;
  Identity identity{of_authority.cluster_id, is_server ? Role::kClient : *control::role_of(arguments.role),
                    arguments.name};
  if (identity.role == Role::kNode && identity.name.empty()) identity.name = app::random_uuid();
  must_be_valid(control::check_identity(identity), "NAME: ");
  if (is_server) return issue_server(arguments, authority, hosts);
  const control::WallSeconds now = std::time(nullptr);
  const CertificateAndKey made =
      must(control::issue_certificate(authority, identity, hosts, {now, now + arguments.days * kDayS}));
  const std::string stem = write_into(arguments.out, identity.name, made);
  const CertificateInfo info = *control::inspect_certificate(made.certificate);
  absl::PrintF("%s.pem, %s.key: %s of cluster %s, valid until %s\n", stem, identity.name, identity.describe(),
               identity.cluster_id, control::wall_time_text(info.valid.until));
  absl::PrintF("Use: --cert %s.pem --key %s.key --ca %s/ca.pem\n", stem, stem, arguments.authority);
  note_early_end(info, arguments.days, now);
  return app::kExitOk;
}

/// "node 5f0f.. of cluster ..."
std::string holder_of(const CertificateInfo& info) {
  if (info.cluster_id.empty()) return absl::StrCat(printable(info.common_name), ": no member of a cluster");
  return absl::StrCat(info.is_authority ? "authority" : info.identity->describe(), " of cluster ", info.cluster_id);
}

std::string text_of(const CertificateInfo& info, const std::string& judged) {
  return absl::StrCat(
      holder_of(info), "\nvalid        ", control::wall_time_text(info.valid.from), " to ",
      control::wall_time_text(info.valid.until), " (", judged, ")\n",
      info.hosts.empty() ? "" : absl::StrCat("hosts        ", printable(absl::StrJoin(info.hosts, ", ")), "\n"),
      "serial       ", info.serial, "\nfingerprint  ", info.fingerprint, "\n");
}

std::string judge(const CertificateInfo& info, control::WallSeconds now) {
  if (now >= info.valid.until) return "expired";
  if (now < info.valid.from) return "not valid yet";
  const control::WallSeconds days = (info.valid.until - now) / kDayS;
  return days == 0 ? "less than a day left" : absl::StrCat(days, days == 1 ? " day left" : " days left");
}

int show_certificate(const Globals& globals, const ShowArguments& arguments) {
  const std::string& path = arguments.path;
  const absl::StatusOr<CertificateInfo> info =
      control::inspect_any_certificate(must(app::read_file(path, kFileBytesMax)));
  must(with_words(path + ": ", info.status()));
  const control::WallSeconds now = std::time(nullptr);
  if (arguments.days_left > 0 && (now < info->valid.from || now + arguments.days_left * kDayS > info->valid.until)) {
    return report_failure(absl::FailedPreconditionError(
        absl::StrCat(path, ": valid from ", control::wall_time_text(info->valid.from), " to ",
                     control::wall_time_text(info->valid.until), ", not for ", arguments.days_left, " days from now")));
  }
  return answer(globals,
                {{"cluster_id", info->cluster_id},
                 {"authority", info->is_authority},
                 {"role", info->identity.has_value() ? control::role_name(info->identity->role) : ""},
                 {"name", info->identity.has_value() ? info->identity->name
                          : info->is_authority       ? ""
                                                     : info->common_name},
                 {"valid_from_s", info->valid.from},
                 {"valid_until_s", info->valid.until},
                 {"valid", now >= info->valid.from && now < info->valid.until},
                 {"hosts", info->hosts},
                 {"serial", info->serial},
                 {"fingerprint", info->fingerprint}},
                text_of(*info, judge(*info, now)));
}

}  // namespace

void add_cert_commands(app::Program& program, const Globals& globals) {
  app::Command& group = program.add_command("cert", "Certificates: who may call whom.");

  const auto [init_command, founding] =
      add_command(group, "init", "Makes the authority of a new cluster.", globals, init);
  init_command.add_positional("dir", &founding.directory, "Where ca.pem and ca.key go; made if it is not there.");
  init_command.add_string("cluster-id", &founding.cluster_id, "Of a cluster that exists; a fresh one by default.")
      .value_name("UUID");
  init_command.add_int("days", &founding.days, "How long the authority is valid.").range(1, 36'500).unit("days");
  init_command.example("skuactl cert init ca", "an authority in the directory ca");

  const auto [issue_command, issued] =
      add_command(group, "issue", "Issues a certificate for a program or a person.", globals, issue);
  issue_command
      .add_positional("role", &issued.role,
                      "control, node, admin, monitor or client; or server, for what others' clients are shown.")
      .one_of({"control", "node", "admin", "monitor", "client", kServer});
  issue_command.add_positional("name", &issued.name, "Who it is for. Of a node: its uuid; a fresh one if left out.")
      .optional();
  issue_command.add_string("authority", &issued.authority, "The directory that cert init made.").value_name("DIR");
  issue_command.add_string("out", &issued.out, "Where NAME.pem and NAME.key go; made if it is not there.")
      .value_name("DIR");
  issue_command.add_string("hosts", &issued.hosts, "Names and IP addresses of a server, with commas.")
      .value_name("HOST,...");
  issue_command.add_int("days", &issued.days, "How long it is valid.").range(1, 36'500).unit("days");
  issue_command.example("skuactl cert issue node --authority ca --out node1", "a certificate for a new node");
  issue_command.example("skuactl cert issue client app-7 --authority ca --out app-7", "one for an application");
  issue_command.example("skuactl cert issue server gateway --hosts localhost,127.0.0.1 --authority clients-ca",
                        "one that the gateway shows to clients of Redis");

  const auto [show_command, shown] =
      add_command(group, "show", "Says what a certificate's file says.", globals, show_certificate);
  show_command.add_positional("file", &shown.path, "A certificate in PEM form.");
  show_command.add_int("days-left", &shown.days_left, "Fails if the certificate is not valid for so long; 0: never.")
      .range(0, 36'500)
      .unit("days");
  show_command.example("skuactl cert show node1/*.pem", "whose it is, and until when");
  show_command.example("skuactl cert show --days-left 30 tls.pem",
                       "for scripts: exit code 1 if it is time for another");

  add_join_commands(group, globals);
  add_revocation_commands(group, globals);
}

}  // namespace skua::kv::ctl
