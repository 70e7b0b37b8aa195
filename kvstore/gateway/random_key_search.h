// RandomKeySearch: the steps that find a random key of a table. Scans only go from lower keys to higher ones. Pure.
//
// Keys are a tree: the children of a prefix are the bytes that follow it in some key. The search begins at the empty
// prefix. If a page has all keys of the prefix, it takes one of them. Otherwise it draws one of the children, and goes
// on there. The first child is in the page, and halving finds the last one. A byte between the two stands for the child
// at or behind it. What all keys of the prefix have in common is skipped.
//
//   while !is_done():  scan() --> the store --> take(page, a random number)
//   key()
//
// Each key has a chance. Chances differ: keys with few neighbours have better ones.
#ifndef SKUA_KVSTORE_GATEWAY_RANDOM_KEY_SEARCH_H_
#define SKUA_KVSTORE_GATEWAY_RANDOM_KEY_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// Thread: one.
class RandomKeySearch {
 public:
  RandomKeySearch() { ask_page(""); }

  [[nodiscard]] bool is_done() const { return is_done_; }
  /// The next scan. Valid until take().
  [[nodiscard]] StoreRequest scan() const;
  /// Takes the result of scan(), which did not fail, and a number that is as random as the key shall be.
  void take(const ScanResult& page, uint64_t random);
  /// Once is_done(). Nothing: the table is empty, or others have removed all that was found, time and again.
  [[nodiscard]] const std::optional<std::string>& key() const { return key_; }

 private:
  enum class Step : uint8_t {
    kPage,    // keys of prefix_
    kSplit,   // is there a key of prefix_ behind those of common_?
    kHalve,   // is there a key of prefix_ whose next byte is above middle_?
    kDescend  // the child at the byte that was drawn, or behind it
  };

  void ask_page(std::string prefix);
  void ask_from(Step step, std::string start);
  void take_page(const ScanResult& page, uint64_t random);
  void find_common(std::string_view key, uint64_t random);
  void settle_on_common(uint64_t random);
  void draw_child(uint64_t random);
  void begin_again();
  void finish(std::optional<std::string> key);

  Step step_ = Step::kPage;
  bool is_done_ = false;
  int restarts_ = 0;
  std::string prefix_;
  std::string start_;          // of the scan
  std::string end_;            // of the scan, which is the end of prefix_
  std::string first_;          // the lowest key of prefix_ that is longer than it
  std::string common_;         // what first_ and the farthest known key of prefix_ begin with
  uint8_t farthest_byte_ = 0;  // of that key, behind common_
  // The next byte of the keys of prefix_: the lowest, and bounds of the highest.
  uint8_t lowest_ = 0;
  uint8_t highest_from_ = 0;
  uint8_t highest_to_ = 0;
  uint8_t middle_ = 0;
  std::optional<std::string> key_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_RANDOM_KEY_SEARCH_H_
