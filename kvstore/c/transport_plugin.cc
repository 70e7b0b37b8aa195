#include "kvstore/c/transport_plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace skua::c {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using LibraryPtr = std::unique_ptr<void, CloseLibrary>;

std::string last_dl_error() {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc has one for each thread
  return text == nullptr ? "no reason is known" : text;
}

absl::Status unusable(std::string_view transport, std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the transport ", absl_view(transport), " cannot be used: ", absl_view(why),
                   "; install the package libskua-", absl_view(transport), "1 of the version of libskua1"));
}

/// The entry point's type names a type of ours, which is hidden, and so is another one to the sanitizer in each object.
#if defined(__clang__)
[[clang::no_sanitize("function")]]
#endif
const char*
ask(PluginEntry* entry, const TransportPlugin*& plugin) {
  return entry(SKUA_PLUGIN_BUILD, &plugin);
}

/// Any address in this library will do.
constexpr char kHere = 0;

/// The file of this library, as the kernel knows it. Empty: /proc is not there. A line: "BEGIN-END RIGHTS ... /FILE".
std::string own_file_by_kernel() {
  std::ifstream maps("/proc/self/maps");
  const auto here = reinterpret_cast<uintptr_t>(&kHere);
  for (std::string line; std::getline(maps, line);) {
    const size_t dash = line.find('-');
    const size_t space = line.find(' ');
    const size_t file = line.find('/');
    if (file == std::string::npos || dash > space || space > file) continue;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    std::from_chars(line.data(), line.data() + dash, begin, 16);
    std::from_chars(line.data() + dash + 1, line.data() + space, end, 16);
    if (begin <= here && here < end) return line.substr(file);
  }
  return "";
}

/// Absolute. The dynamic linker tells the path by which the library was found. If that is a relative one, it counts
/// from the working directory of that time.
std::string own_file() {
  Dl_info library;
  if (dladdr(&kHere, &library) != 0 && library.dli_fname != nullptr && library.dli_fname[0] == '/') {
    return library.dli_fname;
  }
  return own_file_by_kernel();
}

}  // namespace

std::string_view plugin_build() {
  return SKUA_PLUGIN_BUILD;
}

std::string plugin_folder() {
  const char* chosen = secure_getenv("SKUA_PLUGIN_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const std::string file = own_file();
  return file.empty() ? "" : (std::filesystem::path(file).parent_path() / "skua").string();
}

absl::StatusOr<const TransportPlugin*> load_plugin(std::string_view transport, const std::string& folder) {
  if (folder.empty()) return unusable(transport, "the library's own folder is not known: name it by SKUA_PLUGIN_DIR");
  const std::string path = absl::StrCat(folder, "/libskua-transport-", absl_view(transport), ".so.1");
  if (access(path.c_str(), F_OK) != 0) return unusable(transport, absl::StrCat("there is no ", path));
  LibraryPtr library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return unusable(transport, absl::StrCat("it cannot be loaded: ", last_dl_error()));
  // POSIX has it so: a pointer to an object that is a pointer to a function.
  auto* const entry = reinterpret_cast<PluginEntry*>(dlsym(library.get(), kPluginEntryName));
  if (entry == nullptr) {
    return unusable(transport, absl::StrCat(path, " is no transport of Skua: it has no function ", kPluginEntryName));
  }
  const TransportPlugin* plugin = nullptr;
  const char* build = ask(entry, plugin);
  if (build == nullptr || plugin_build() != build || plugin == nullptr) {
    return unusable(transport, absl::StrCat(path, " is of build ", build == nullptr ? "(none)" : build,
                                            ", and the library is of build ", SKUA_PLUGIN_BUILD));
  }
  static_cast<void>(library.release());
  return plugin;
}

}  // namespace skua::c
