// Finding: one line of the doctor's report. Findings: those of one area.
#ifndef SKUA_KVSTORE_CTL_FINDING_H_
#define SKUA_KVSTORE_CTL_FINDING_H_

#include <string>
#include <utility>
#include <vector>

namespace skua::kv::ctl {

enum class Verdict { kOk, kWarning, kFailure };

struct Finding {
  /// What was examined: "machine", "disk", "tcp", "security", "dpdk", "verbs".
  std::string area;
  std::string name;
  Verdict verdict = Verdict::kOk;
  /// What was found.
  std::string detail;
  /// What to do, as a command if there is one. Empty: nothing.
  std::string remedy;
  /// Why it matters: what it is needed for, or what happens without it.
  std::string why;
};

/// Collects the findings of one area.
class Findings {
 public:
  explicit Findings(std::string area) : area_(std::move(area)) {}

  /// The remedy counts only if the verdict is not kOk.
  void add(std::string name, Verdict verdict, std::string detail, std::string remedy, std::string why) {
    if (verdict == Verdict::kOk) remedy.clear();
    list_.push_back({area_, std::move(name), verdict, std::move(detail), std::move(remedy), std::move(why)});
  }
  [[nodiscard]] std::vector<Finding> take() { return std::move(list_); }

 private:
  std::string area_;
  std::vector<Finding> list_;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_FINDING_H_
