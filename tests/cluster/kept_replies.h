// KeptReplies: replies that a client keeps where they came, as an application may, and what they said when they came.
#ifndef SKUA_TESTS_CLUSTER_KEPT_REPLIES_H_
#define SKUA_TESTS_CLUSTER_KEPT_REPLIES_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/types.h"

namespace skua::kv {

class KeptReplies {
 public:
  /// Values of this size are kept: smaller than what is put together from several packets, larger than what is copied
  /// anyway.
  static constexpr size_t kBytesMin = 300;
  static constexpr size_t kBytesMax = 4000;
  static constexpr size_t kMax = 128;

  /// Beyond kMax the oldest one goes. False: its value has another size.
  bool keep(std::string_view name, GetResult&& result) {
    if (!is_kept(result.value.bytes())) return false;
    Kept one;
    one.values.push_back({std::string(name), result.value.bytes(), result.value.str()});
    one.get = std::move(result);
    add(std::move(one));
    return true;
  }
  bool keep(MultiGetResult&& result) {
    Kept one;
    for (const KeyResult& entry : result.entries) {
      if (is_kept(entry.value)) one.values.push_back({"a MULTI_GET's", entry.value, std::string(entry.value)});
    }
    if (one.values.empty()) return false;
    one.multi_get = std::move(result);
    add(std::move(one));
    return true;
  }
  /// Lets all go. What was wrong with any that was ever kept; empty: nothing.
  std::string check_and_drop() {
    while (!kept_.empty()) drop();
    return std::exchange(broken_, {});
  }
  [[nodiscard]] size_t count() const { return kept_.size(); }
  /// Since the last call.
  size_t take_total() { return std::exchange(total_, 0); }

 private:
  struct Value {
    std::string name;
    std::string_view is;
    std::string was;
  };
  struct Kept {
    GetResult get;
    MultiGetResult multi_get;
    std::vector<Value> values;
  };
  [[nodiscard]] static bool is_kept(std::string_view value) {
    return value.size() >= kBytesMin && value.size() <= kBytesMax;
  }
  void add(Kept&& one) {
    kept_.push_back(std::move(one));
    ++total_;
    if (kept_.size() > kMax) drop();
  }
  void drop() {
    for (const Value& value : kept_.front().values) {
      if (value.is == value.was || !broken_.empty()) continue;
      broken_ = absl::StrCat("a reply that was kept has changed: ", value.name, " value was '", value.was.substr(0, 40),
                             "' (", value.was.size(), " bytes), is '", std::string(value.is.substr(0, 40)), "'");
    }
    kept_.pop_front();
  }

  std::deque<Kept> kept_;
  size_t total_ = 0;
  std::string broken_;
};

}  // namespace skua::kv

#endif  // SKUA_TESTS_CLUSTER_KEPT_REPLIES_H_
