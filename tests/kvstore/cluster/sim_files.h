// SimFiles: the small files of a simulated machine's data directory. They outlive the machine's processes.
#ifndef SKUA_TESTS_KVSTORE_CLUSTER_SIM_FILES_H_
#define SKUA_TESTS_KVSTORE_CLUSTER_SIM_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/storage/durable_files.h"
#include "tests/kvstore/shard/crash_machine.h"

namespace skua::kv::sim {

class SimFiles final : public DurableFiles {
 public:
  explicit SimFiles(Machine& machine) : machine_(machine) {}

  /// The process may end at this operation: then the file has its former bytes.
  [[nodiscard]] absl::Status replace(const std::string& name, std::string_view bytes) const override {
    if (!machine_.begin_operation()) return Machine::ended();
    files_[name] = bytes;
    ++changes_;
    return absl::OkStatus();
  }
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> read(const std::string& name) const override {
    const auto found = files_.find(name);
    return found == files_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::string path_of(const std::string& name) const override { return name; }
  void remove(const std::string& name) { files_.erase(name); }
  /// How often files were replaced.
  [[nodiscard]] uint64_t changes() const { return changes_; }

 private:
  Machine& machine_;
  mutable std::map<std::string, std::string> files_;
  mutable uint64_t changes_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_CLUSTER_SIM_FILES_H_
