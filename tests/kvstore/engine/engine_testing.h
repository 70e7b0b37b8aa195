// What the engine's tests share: a directory that cleans up after itself, a dumb twin of a shard.
#ifndef SKUA_TESTS_KVSTORE_ENGINE_ENGINE_TESTING_H_
#define SKUA_TESTS_KVSTORE_ENGINE_ENGINE_TESTING_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec/row.h"
#include "kvstore/engine/mutation.h"
#include "rpc/base/rng.h"

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
  };

  MutationResult apply(const Mutation& mutation) {
    const auto it = rows_.find(mutation.key);
    const bool exists = it != rows_.end();
    const uint64_t version = exists ? it->second.version : 0;
    if (mutation.kind == Mutation::Kind::kPatch) {
      if (!exists && !mutation.create_if_missing) return {KvStatus::kNotFound, 0};
      std::string patched;
      const absl::Status status =
          patch_row(as_byte_span(exists ? it->second.value : std::string()), mutation.value, patched);
      if (absl::IsFailedPrecondition(status)) return {KvStatus::kNotARow, version};
      if (!status.ok()) return {KvStatus::kInvalidArgument, version};
      return put(mutation.key, patched);
    }
    if (mutation.condition.kind == Condition::Kind::kIfAbsent && exists) {
      return {KvStatus::kAlreadyExists, version};
    }
    if (mutation.condition.kind == Condition::Kind::kIfVersion && mutation.condition.version != version) {
      return {KvStatus::kVersionMismatch, version};
    }
    if (mutation.kind == Mutation::Kind::kPut) {
      return put(mutation.key, std::string(as_string_view(mutation.value)));
    }
    if (!exists) return {KvStatus::kNotFound, 0};
    rows_.erase(it);
    return {KvStatus::kOk, ++last_index_};
  }

  [[nodiscard]] const Row* find(std::string_view key) const {
    const auto it = rows_.find(key);
    return it == rows_.end() ? nullptr : &it->second;
  }
  [[nodiscard]] const std::map<std::string, Row, std::less<>>& rows() const { return rows_; }
  [[nodiscard]] uint64_t last_index() const { return last_index_; }

 private:
  MutationResult put(std::string_view key, std::string value) {
    rows_[std::string(key)] = {++last_index_, std::move(value)};
    return {KvStatus::kOk, last_index_};
  }

  std::map<std::string, Row, std::less<>> rows_;
  uint64_t last_index_ = 0;
};

/// Random mutations over few keys, so that conditions are met and missed. Owns the bytes of what it made since clear().
class MutationMaker {
 public:
  explicit MutationMaker(Rng rng) : rng_(rng) {}

  void clear() { bytes_.clear(); }

  /// `version_of` is asked for a version that is right half of the time.
  template <typename VersionOf>
  Mutation make(VersionOf version_of) {
    const std::string_view key = keep("key" + std::to_string(rng_.below(30)));
    const auto condition = [&] {
      if (rng_.chance(0.5)) return Condition::none();
      return Condition::if_version(rng_.chance(0.5) ? version_of(key) : rng_.below(200));
    };
    switch (rng_.below(4)) {
      case 0: return Mutation::remove(key, condition());
      case 1: {
        std::string fields;
        for (uint64_t n = rng_.between(1, 3); n > 0; --n) {
          const std::string name = "f" + std::to_string(rng_.below(4));
          append_field(fields, {name, as_byte_span("v" + std::to_string(rng_.below(1000)))});
        }
        return Mutation::patch(key, as_byte_span(keep(fields)), rng_.chance(0.5));
      }
      default: {
        // Rows mostly, and some values that are none.
        std::string value;
        if (rng_.chance(0.2)) {
          value = "plain " + std::to_string(rng_.next());
        } else {
          append_field(value, {"f0", as_byte_span(std::string(rng_.below(200), 'x'))});
        }
        return Mutation::put(key, as_byte_span(keep(value)), rng_.chance(0.2) ? Condition::if_absent() : condition());
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

#endif  // SKUA_TESTS_KVSTORE_ENGINE_ENGINE_TESTING_H_
