// What the engine's tests share: a directory that cleans up after itself, a dumb twin of a shard.
#ifndef SKUA_TESTS_KVSTORE_SHARD_ENGINE_TESTING_H_
#define SKUA_TESTS_KVSTORE_SHARD_ENGINE_TESTING_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/row.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::testing {

/// A fresh directory, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "skua-engine-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The dumb twin: a std::map and the rules, written the long way round.
class TwinShard {
 public:
  struct Row {
    uint64_t version = 0;
    std::string value;
    uint64_t expires_at = 0;
    RecordMark mark{};
  };
  using Rows = std::map<std::string, Row, std::less<>>;

  MutationResult apply(const Mutation& mutation, uint64_t now_ms = 0) {
    const MutationResult result = change(mutation, now_ms, last_index_ + 1);
    if (result.status == KvStatus::kOk && result.version > last_index_) ++last_index_;
    return result;
  }

  /// All or none; false: none, and `results` says why.
  bool apply_batch(std::span<const Mutation> batch, uint64_t now_ms, std::vector<MutationResult>& results) {
    const Rows before = rows_;
    results.clear();
    bool changes = false;
    for (size_t i = 0; i < batch.size(); ++i) {
      results.push_back(change(batch[i], now_ms, last_index_ + 1));
      const MutationResult result = results.back();
      if (result.status == KvStatus::kOk) {
        changes |= batch[i].kind != Mutation::Kind::kCheck;
      } else if (batch[i].kind != Mutation::Kind::kDelete || result.status != KvStatus::kNotFound ||
                 batch[i].condition.kind == Condition::Kind::kIfPresent) {
        rows_ = before;
        results.assign(batch.size(), {});
        results[i] = result;
        return false;
      }
    }
    if (changes) ++last_index_;
    return true;
  }

  /// Null as well for one that has expired.
  [[nodiscard]] const Row* find(std::string_view key, uint64_t now_ms = 0) const {
    const auto it = rows_.find(key);
    return it == rows_.end() || (it->second.expires_at != 0 && it->second.expires_at <= now_ms) ? nullptr : &it->second;
  }
  [[nodiscard]] const Rows& rows() const { return rows_; }
  [[nodiscard]] uint64_t last_index() const { return last_index_; }
  void pass_over(uint64_t index) { last_index_ = index; }

 private:
  /// Field by field, not as edit_row() does it. `next`: the row as it was, with the version that it gets.
  MutationResult edit(const Mutation& mutation, Row next, uint64_t version) {
    std::vector<std::pair<std::string, std::string>> fields;
    RowReader before(as_byte_span(next.value));
    while (const auto field = before.next()) fields.emplace_back(field->name, as_string_view(field->value));
    if (!before.ok()) return {KvStatus::kNotARow, version};
    const auto names = [](const auto& all) {
      std::set<std::string> found;
      for (const auto& field : all) found.insert(field.first);
      return found;
    };
    const std::set<std::string> had = names(fields);
    bool replaces = false;
    std::map<std::string, std::pair<bool, std::string>> wanted;  // what the edit says last of a name
    std::vector<std::string> order;
    for (RowReader edit(mutation.value, RowReader::Form::kEdit); const auto field = edit.next();) {
      order.emplace_back(field->name);
      wanted[order.back()] = {field->is_removed, std::string(as_string_view(field->value))};
    }
    for (const std::string& name : order) {
      const auto is_named = [&](const auto& each) { return each.first == name; };
      const auto at = std::find_if(fields.begin(), fields.end(), is_named);
      const auto& [is_removed, value] = wanted[name];
      replaces |= !is_removed && had.contains(name);
      if (is_removed) {
        std::erase_if(fields, is_named);
      } else if (at != fields.end()) {
        at->second = value;
      } else {
        fields.emplace_back(name, value);
      }
    }
    PatchCounts counts;
    const std::set<std::string> has = names(fields);
    for (const std::string& name : has) counts.added = static_cast<uint16_t>(counts.added + !had.contains(name));
    for (const std::string& name : had) counts.removed = static_cast<uint16_t>(counts.removed + !has.contains(name));
    counts.left = static_cast<uint16_t>(fields.size());
    if (counts.added == 0 && counts.removed == 0 && !replaces) {
      return version == 0 ? MutationResult{KvStatus::kNotFound} : MutationResult{KvStatus::kOk, version, counts.word()};
    }
    if (fields.empty()) {
      rows_.erase(std::string(mutation.key));
    } else {
      next.value.clear();
      for (const auto& [name, value] : fields) append_field(next.value, {name, as_byte_span(value)});
      rows_[std::string(mutation.key)] = next;
    }
    return {KvStatus::kOk, next.version, counts.word()};
  }

  MutationResult change(const Mutation& mutation, uint64_t now_ms, uint64_t index) {
    const Row* const row = find(mutation.key, now_ms);
    const uint64_t version = row == nullptr ? 0 : row->version;
    if (mutation.condition.kind == Condition::Kind::kIfAbsent && row != nullptr) {
      return {KvStatus::kAlreadyExists, version};
    }
    if (mutation.condition.kind == Condition::Kind::kIfPresent && row == nullptr) return {KvStatus::kNotFound, 0};
    if (mutation.condition.kind == Condition::Kind::kIfVersion && mutation.condition.version != version) {
      return {KvStatus::kVersionMismatch, version};
    }
    Row next = row == nullptr ? Row{} : *row;
    next.version = index;
    MutationResult done = {KvStatus::kOk, index};
    const uint64_t expires_at = mutation.ttl_ms == 0 ? 0 : now_ms + mutation.ttl_ms;
    switch (mutation.kind) {
      case Mutation::Kind::kPut:
        next.value = as_string_view(mutation.value);
        if (!mutation.keep_ttl) next.expires_at = expires_at;
        next.mark = mutation.mark;
        break;
      case Mutation::Kind::kDelete:
        if (row == nullptr) return {KvStatus::kNotFound, 0};
        rows_.erase(std::string(mutation.key));
        return done;
      case Mutation::Kind::kPatch: {
        if (row == nullptr && !mutation.create_if_missing) return {KvStatus::kNotFound, 0};
        if (mutation.mark.row && row != nullptr && !row->mark.row) return {KvStatus::kNotARow, version};
        if (row == nullptr) next.mark = mutation.mark;
        if (mutation.edits_row) return edit(mutation, std::move(next), version);
        std::string patched;
        const absl::Status status = patch_row(as_byte_span(next.value), mutation.value, patched);
        if (absl::IsFailedPrecondition(status)) return {KvStatus::kNotARow, version};
        if (!status.ok()) return {KvStatus::kInvalidArgument, version};
        next.value = patched;
        break;
      }
      case Mutation::Kind::kAdd: {
        int64_t counter = 0;
        if (row != nullptr) {
          char* end = nullptr;
          counter = std::strtoll(row->value.c_str(), &end, 10);
          if (row->value.empty() || std::to_string(counter) != row->value) return {KvStatus::kNotANumber, version};
        }
        done.value = counter + mutation.delta;
        next.value = std::to_string(done.value);
        break;
      }
      case Mutation::Kind::kAppend:
        if (next.mark.row) return {KvStatus::kIsARow, version};
        next.value += as_string_view(mutation.value);
        break;
      case Mutation::Kind::kExpire:
        if (row == nullptr) return {KvStatus::kNotFound, 0};
        next.expires_at = expires_at;
        break;
      case Mutation::Kind::kCheck: return {KvStatus::kOk, version};
    }
    rows_[std::string(mutation.key)] = next;
    return done;
  }

  Rows rows_;
  uint64_t last_index_ = 0;
};

/// Random mutations over few keys, so that conditions are met and missed, and keys expire within a hundred ms. Owns the
/// bytes of what it made since clear().
class MutationMaker {
 public:
  explicit MutationMaker(Rng rng) : rng_(rng) {}

  void clear() { bytes_.clear(); }

  /// `version_of` is asked for a version that is right half of the time. `may_edit`: half of the PATCHes edit the row,
  /// which they may not in batches.
  template <typename VersionOf>
  Mutation make(VersionOf version_of, bool may_edit = false) {
    const std::string_view key = keep("key" + std::to_string(rng_.below(30)));
    const auto condition = [&] {
      if (rng_.chance(0.5)) return Condition::none();
      if (rng_.chance(0.2)) return Condition::if_present();
      return Condition::if_version(rng_.chance(0.5) ? version_of(key) : rng_.below(200));
    };
    switch (rng_.below(9)) {
      case 0: return mutations::remove(key, condition());
      case 2: return mutations::add(key, static_cast<int64_t>(rng_.below(100)) - 50, condition());
      case 3: return mutations::append(key, as_byte_span(keep(std::to_string(rng_.below(10)))), condition());
      case 4: return mutations::expire(key, rng_.below(3) * 20, condition());
      case 1: {
        std::string fields;
        const bool edits = may_edit && rng_.chance(0.5);
        for (uint64_t n = rng_.between(1, 3); n > 0; --n) {
          const std::string name = "f" + std::to_string(rng_.below(4));
          const std::string value = "v" + std::to_string(rng_.below(1000));
          const bool removes = edits && rng_.chance(0.6);
          append_field(fields, {name, removes ? ByteSpan{} : as_byte_span(value), removes});
        }
        Mutation patch = mutations::patch(key, as_byte_span(keep(fields)), rng_.chance(0.5));
        patch.edits_row = edits;
        patch.mark.row = rng_.chance(0.2);
        return patch;
      }
      default: {
        // Rows mostly, and some values that are none.
        std::string value;
        if (rng_.chance(0.2)) {
          value = "plain " + std::to_string(rng_.next());
        } else if (rng_.chance(0.3)) {
          value = std::to_string(rng_.below(1000));
        } else {
          append_field(value, {"f0", as_byte_span(std::string(rng_.below(200), 'x'))});
        }
        const uint64_t ttl_ms = rng_.chance(0.3) ? rng_.between(1, 60) : 0;
        Mutation put = mutations::put(key, as_byte_span(keep(value)),
                                      rng_.chance(0.2) ? Condition::if_absent() : condition(), ttl_ms);
        if (rng_.chance(0.2)) put = mutations::put_keeping_ttl(key, put.value, condition());
        if (rng_.chance(0.4)) put.mark.tag = static_cast<uint32_t>(rng_.below(3));
        if (rng_.chance(0.2)) put.mark.row = check_marked_row(put.value).ok();
        return put;
      }
    }
  }

  Rng& rng() { return rng_; }

 private:
  std::string_view keep(const std::string& text) {
    bytes_.push_back(std::make_unique<std::string>(text));
    return *bytes_.back();
  }

  Rng rng_;
  std::vector<std::unique_ptr<std::string>> bytes_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_SHARD_ENGINE_TESTING_H_
