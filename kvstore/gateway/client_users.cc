#include "kvstore/gateway/client_users.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

using Databases = std::map<uint32_t, std::string>;

constexpr absl::string_view kEveryTable = "*";
constexpr absl::string_view kByCertificate = "certificate";
/// Of a wrong word, as an error shows it. Much shorter than a hash: no error shows one.
constexpr size_t kShownWordBytesMax = 32;

std::string shown_word(absl::string_view word) {
  return absl::StrCat("'", printable(std_view(word.substr(0, kShownWordBytesMax))), "'");
}

/// Bytes of names of certificates, so that each of these can be a user's.
bool is_user_name(absl::string_view name) {
  return !name.empty() && name.size() <= kUserNameBytesMax && std::ranges::all_of(name, [](char byte) {
    return absl::ascii_isalnum(static_cast<unsigned char>(byte)) || absl::StrContains("-._@", byte);
  });
}

absl::StatusOr<Rights> parse_rights(absl::string_view words) {
  Rights rights;
  for (const absl::string_view word : absl::StrSplit(words, ',')) {
    bool* const right = word == "read" ? &rights.read : word == "write" ? &rights.write : nullptr;
    if (right == nullptr || *right) {
      return absl::InvalidArgumentError(absl::StrCat("rights are read, write or read,write, not ", shown_word(words)));
    }
    *right = true;
  }
  return rights;
}

/// Adds the rights of one line's grants to `user`.
absl::Status read_grants(const std::vector<absl::string_view>& words, const Databases& databases, ClientUser& user) {
  std::map<absl::string_view, Rights> grants;
  for (const absl::string_view word : words) {
    const size_t sign = word.find('=');
    if (sign == absl::string_view::npos || sign == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a grant is TABLE=RIGHTS, such as cache=read,write, not ", shown_word(word)));
    }
    absl::StatusOr<Rights> rights = parse_rights(word.substr(sign + 1));
    if (!rights.ok()) return rights.status();
    if (!grants.emplace(word.substr(0, sign), *rights).second) {
      return absl::InvalidArgumentError(absl::StrCat("two grants for table ", shown_word(word.substr(0, sign))));
    }
  }
  for (const auto& [number, table] : databases) {
    const auto own = grants.find(table);
    const auto found = own != grants.end() ? own : grants.find(kEveryTable);
    if (found != grants.end()) user.rights[number] = found->second;
  }
  return absl::OkStatus();
}

absl::StatusOr<ClientUser> parse_user(absl::string_view line, const Databases& databases) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() < 2) {
    return absl::InvalidArgumentError("a line is NAME, the password's hash or the word certificate, and grants");
  }
  if (!is_user_name(words[0])) {
    return absl::InvalidArgumentError(absl::StrCat("a name has 1 to ", kUserNameBytesMax,
                                                   " letters, digits and -._@, and is not ", shown_word(words[0])));
  }
  ClientUser user{.name = std::string(words[0]), .password = {}, .rights = {}};
  if (words[1] != kByCertificate) {
    absl::StatusOr<PasswordHash> password = parse_password_hash(std_view(words[1]));
    if (!password.ok()) return password.status();
    user.password = *password;
  }
  if (absl::Status status = read_grants({words.begin() + 2, words.end()}, databases, user); !status.ok()) {
    return status;
  }
  return user;
}

}  // namespace

absl::StatusOr<UserTable> UserTable::parse(std::string_view text, const Databases& databases) {
  UserTable table;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(absl_view(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    absl::StatusOr<ClientUser> user = parse_user(line, databases);
    std::string trouble;
    if (!user.ok()) {
      trouble = std::string(user.status().message());
    } else if (table.users_.size() == kUsersMax) {
      trouble = absl::StrCat("there are more than ", kUsersMax, " users");
    } else if (table.users_.contains(user->name)) {
      trouble = absl::StrCat("user ", user->name, " is there twice");
    }
    if (!trouble.empty()) return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", trouble));
    table.users_.emplace(user->name, std::make_shared<const ClientUser>(*user));
  }
  if (table.users_.empty()) {
    return absl::InvalidArgumentError("there is no user in it, so nobody could connect: add a line for each");
  }
  return table;
}

std::shared_ptr<const ClientUser> UserTable::find(std::string_view name) const {
  const auto found = users_.find(absl_view(name));
  return found == users_.end() ? nullptr : found->second;
}

}  // namespace skua::kv::gateway
