// What durability_client is told on its command line (tests/cluster/durability_client.cc).
#ifndef SKUA_TESTS_CLUSTER_DURABILITY_ARGUMENTS_H_
#define SKUA_TESTS_CLUSTER_DURABILITY_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace skua::kv {

struct DurabilityArguments {
  std::string control;
  std::string table;
  size_t keys = 1000;
  size_t counters = 16;
  size_t sums = 4;
  size_t in_flight = 64;
  size_t value_bytes = 400;
  /// Operations that a load begins, a second. Enough to meet each fault with writes in flight; tests that share a
  /// machine need the processors for more than this client. 0: as many as there is room for.
  uint64_t rate = 2000;
  uint64_t seed = 1;

  /// False: an option that is none, or one that must be there is not.
  bool parse(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string_view name = argv[i];
      const char* value = argv[i + 1];
      const auto number = std::strtoull(value, nullptr, 10);
      if (name == "--control") {
        control = value;
      } else if (name == "--table") {
        table = value;
      } else if (name == "--keys") {
        keys = number;
      } else if (name == "--counters") {
        counters = number;
      } else if (name == "--sums") {
        sums = number;
      } else if (name == "--in-flight") {
        in_flight = number;
      } else if (name == "--value-bytes") {
        value_bytes = number;
      } else if (name == "--rate") {
        rate = number;
      } else if (name == "--seed") {
        seed = number;
      } else {
        return false;
      }
    }
    return !control.empty() && !table.empty() && argc % 2 == 1;
  }
};

}  // namespace skua::kv

#endif  // SKUA_TESTS_CLUSTER_DURABILITY_ARGUMENTS_H_
