// Files of a program that makes its key itself and gets its certificate from the control plane:
//
//     DIR/key.pem     its private key, mode 0600: made first, and kept
//     DIR/ca.pem      whom to believe
//     DIR/cert.pem    its certificate: once it is there, all are
//
// Each is replaced as a whole (written aside, synced, renamed), so that a crash or a reader finds the old or the new
// one. A new certificate is for the same key, so no two files must change together.
#ifndef SKUA_CONTROL_SECURITY_CERTIFICATE_FILES_H_
#define SKUA_CONTROL_SECURITY_CERTIFICATE_FILES_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/credential_files.h"
#include "control/security/identity.h"

namespace skua::control {

/// Their paths in `directory`.
[[nodiscard]] CredentialFiles certificate_files_in(const std::string& directory);

/// The private key in the file, as PEM text; a new one if there is no file. Makes the directory (mode 0700), too.
/// Errors name the path and the system's reason.
[[nodiscard]] absl::StatusOr<std::string> load_or_make_key(const std::string& path);

/// The whole file. NOT_FOUND: there is none. Errors name the path and the system's reason.
[[nodiscard]] absl::StatusOr<std::string> read_certificate_file(const std::string& path);

/// Who has the certificate in the directory already; nothing: there is none. FAILED_PRECONDITION: nobody may join with
/// the files of this directory, because it is an authority's, or its certificate is not Skua's.
[[nodiscard]] absl::StatusOr<std::optional<Identity>> owner_of_directory(const std::string& directory);

/// FAILED_PRECONDITION: every user of this machine may read the private key, or others than its owner may change it. Its
/// group may read it: that is how containers and services get at theirs. OK, too, if there is no such file, or if this
/// process cannot change it: another user's, or a read-only mount of a container's secrets.
[[nodiscard]] absl::Status check_key_is_kept(const std::string& path);
/// FAILED_PRECONDITION: this process cannot make a file beside the file, or beside what its link leads to.
[[nodiscard]] absl::Status check_can_be_replaced(const std::string& path);

/// FAILED_PRECONDITION: the file is also that of the key, or has a private key in it, so it must not be replaced by a
/// certificate. The message says what to do.
[[nodiscard]] absl::Status check_holds_no_key(const std::string& path, const std::string& key);

/// Replaces the file durably. It keeps its mode (a new one is readable by all), and if it is a symbolic link, what that
/// leads to is replaced. Errors name the path and the system's reason.
[[nodiscard]] absl::Status replace_certificate_file(const std::string& path, std::string_view text);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_CERTIFICATE_FILES_H_
