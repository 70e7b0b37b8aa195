#include "kvstore/gateway/random_key_search.h"

#include <algorithm>
#include <utility>

#include "kvstore/gateway/glob.h"

namespace skua::kv::gateway {
namespace {

/// Keys of a page. The more there are, the sooner a search ends.
constexpr uint32_t kPageRows = 256;
/// Others may remove the keys that a search has seen.
constexpr int kRestartsMax = 8;

std::string_view common_prefix(std::string_view a, std::string_view b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return a.substr(0, static_cast<size_t>(end - a.begin()));
}

}  // namespace

StoreRequest RandomKeySearch::scan() const {
  return {.kind = StoreRequest::Kind::kScan,
          .key = start_,
          .end = end_,
          .rows_max = step_ == Step::kPage ? kPageRows : 1,
          .keys_only = true};
}

void RandomKeySearch::ask_page(std::string prefix) {
  prefix_ = std::move(prefix);
  end_ = end_of_prefix(prefix_);
  ask_from(Step::kPage, prefix_);
}

void RandomKeySearch::ask_from(Step step, std::string start) {
  step_ = step;
  start_ = std::move(start);
}

void RandomKeySearch::take(const ScanResult& page, uint64_t random) {
  const bool is_empty = page.rows.empty();
  if (is_empty && page.has_more) {
    start_ = page.next_start;  // the store has looked at rows that have expired, for example
    return;
  }
  switch (step_) {
    case Step::kPage: return take_page(page, random);
    case Step::kSplit:
      if (is_empty) return settle_on_common(random);
      return find_common(page.rows[0].key, random);
    case Step::kHalve:
      if (is_empty) {
        highest_to_ = middle_;
      } else {
        highest_from_ = static_cast<uint8_t>(page.rows[0].key[prefix_.size()]);
      }
      return draw_child(random);
    case Step::kDescend:
      if (is_empty) return begin_again();
      return ask_page(std::string(page.rows[0].key.substr(0, prefix_.size() + 1)));
  }
}

void RandomKeySearch::take_page(const ScanResult& page, uint64_t random) {
  if (page.rows.empty()) return prefix_.empty() ? finish(std::nullopt) : begin_again();
  // The key that is the prefix itself is no child. It has its chance here.
  const Row& drawn = page.rows[random % page.rows.size()];
  if (!page.has_more || page.rows.size() < 2 || drawn.key == prefix_) return finish(std::string(drawn.key));
  first_ = page.rows[page.rows[0].key == prefix_ ? 1 : 0].key;
  find_common(page.rows.back().key, random);
}

/// Keys often begin alike. What all keys of prefix_ have in common is found from its long end, in few steps. `key`: one
/// of them, the farthest that is known.
void RandomKeySearch::find_common(std::string_view key, uint64_t random) {
  common_ = common_prefix(first_, key);
  farthest_byte_ = key.size() > common_.size() ? static_cast<uint8_t>(key[common_.size()]) : uint8_t{0};
  std::string behind = end_of_prefix(common_);
  const bool is_all = common_.size() == prefix_.size() || behind.empty() || (!end_.empty() && behind >= end_);
  if (is_all) return settle_on_common(random);
  ask_from(Step::kSplit, std::move(behind));
}

/// All keys of prefix_ begin with common_.
void RandomKeySearch::settle_on_common(uint64_t random) {
  if (first_.size() == common_.size()) return ask_page(common_);  // the key that is the prefix itself has its chance
  prefix_ = common_;
  end_ = end_of_prefix(prefix_);
  lowest_ = static_cast<uint8_t>(first_[prefix_.size()]);
  highest_from_ = farthest_byte_;
  highest_to_ = 0xff;
  draw_child(random);
}

void RandomKeySearch::draw_child(uint64_t random) {
  if (highest_from_ < highest_to_) {
    middle_ = static_cast<uint8_t>((highest_from_ + highest_to_) / 2);
    return ask_from(Step::kHalve, prefix_ + static_cast<char>(middle_ + 1));
  }
  const uint64_t drawn = lowest_ + random % (uint64_t{highest_from_} - lowest_ + 1);
  ask_from(Step::kDescend, prefix_ + static_cast<char>(drawn));
}

void RandomKeySearch::begin_again() {
  if (++restarts_ > kRestartsMax) return finish(std::nullopt);
  ask_page("");
}

void RandomKeySearch::finish(std::optional<std::string> key) {
  is_done_ = true;
  key_ = std::move(key);
}

}  // namespace skua::kv::gateway
