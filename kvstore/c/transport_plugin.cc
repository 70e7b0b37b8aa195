#include "kvstore/c/transport_plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>

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

}  // namespace

std::string_view plugin_build() {
  return SKUA_PLUGIN_BUILD;
}

std::string plugin_folder() {
  const char* chosen = secure_getenv("SKUA_PLUGIN_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  // Any address in this library will do.
  static const char here = 0;
  Dl_info library;
  if (dladdr(&here, &library) == 0 || library.dli_fname == nullptr) return "skua";
  const std::filesystem::path file(library.dli_fname);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(file, error);
  return ((error ? file : absolute).parent_path() / "skua").string();
}

absl::StatusOr<const TransportPlugin*> load_plugin(std::string_view transport, const std::string& folder) {
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
  const char* build = entry(SKUA_PLUGIN_BUILD, &plugin);
  if (build == nullptr || plugin_build() != build || plugin == nullptr) {
    return unusable(transport, absl::StrCat(path, " is of build ", build == nullptr ? "(none)" : build,
                                            ", and the library is of build ", SKUA_PLUGIN_BUILD));
  }
  static_cast<void>(library.release());
  return plugin;
}

}  // namespace skua::c
