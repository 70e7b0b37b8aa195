// durability_client: writes to a table, remembers what was acknowledged, and says whether it is there.
//
//   durability_client --control HOST:PORT --table T [--keys N] [--counters N] [--sums N] [--in-flight N] [--seed N]
//                     [--value-bytes N] [--rate N]
//
// --rate: operations a second (2,000); 0: as fast as it is let.
//
// Lines on stdin drive it, each is answered by one line on stdout:
//
//   load         begins to write (and read), in the background                    "loading"
//   keep         reads, and keeps the replies until the next check                "kept replies=.."
//   pause        ends that when every operation has its answer                    "paused acknowledged=.. ... longest_ms=.."
//   check        reads every key                                                  "checked keys=.." or "broken: .."
//   quit
//
// Reads are GETs and MULTI_GETs. Some replies are kept for a while, in the memory where they came, and must not
// change there.
//
// What it knows of a key is the set of values that it may have:
//
//   acknowledged write    { the new one }
//   refused               unchanged
//   unknown               the new one as well; nobody touches the key until the next check, which finds out
//
// Counters are keys that are raised by one with a condition on their version, so that one lost or repeated write shows.
// Sums are raised with ADD, by many at a time:
//
//    acknowledged <= the sum <= acknowledged + unknown      and no two were told the same sum; at a check it becomes exact
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kvstore/client/async_client.h"
#include "rpc/base/rng.h"
#include "tests/cluster/durability_arguments.h"
#include "tests/cluster/kept_replies.h"

namespace skua::kv {
namespace {

using Arguments = DurabilityArguments;
using Clock = std::chrono::steady_clock;

struct Key {
  std::string name;
  Clock::time_point began{};
  bool counts = false;
  bool busy = false;
  bool unknown = false;
  uint64_t version = 0;                                          // highest that was told
  std::vector<std::optional<std::string>> may_be{std::nullopt};  // nullopt: absent
};

/// Raised by one at a time.
struct Sum {
  std::string name;
  int64_t acknowledged = 0;
  int64_t under_way = 0;
  int64_t unknown = 0;
  std::set<int64_t> told{};        // since the last check
  std::deque<std::string> last{};  // what was done to it, for a failure's text
  bool is_read = false;
};

class DurabilityClient {
 public:
  DurabilityClient(const Arguments& arguments, AsyncClient& client)
      : arguments_(arguments), client_(client), rng_(arguments.seed) {
    for (size_t i = 0; i < arguments.keys; ++i) keys_.push_back({.name = absl::StrCat("key", i)});
    for (size_t i = 0; i < arguments.counters; ++i) {
      keys_.push_back({.name = absl::StrCat("counter", i), .counts = true});
    }
    for (size_t i = 0; i < arguments.sums; ++i) sums_.push_back({.name = absl::StrCat("sum", i)});
  }

  void load() {
    loading_ = true;
    backup_reads_before_ = client_.counters().backup_reads;
  }

  std::string pause() {
    loading_ = false;
    while (in_flight_ > 0) client_.poll(std::chrono::milliseconds(10));
    std::string line = absl::StrCat(
        "paused acknowledged=", acknowledged_, " unknown=", unknown_, " refused=", refused_, " reads=", reads_,
        " failed_reads=", failed_reads_, " longest_ms=", longest_.count(), " multi_gets=", multi_gets_,
        " kept_replies=", kept_.take_total(), " backup_reads=", client_.counters().backup_reads - backup_reads_before_);
    for (const auto& [code, text] : last_refusals_) absl::StrAppend(&line, " | ", text);
    acknowledged_ = unknown_ = refused_ = reads_ = failed_reads_ = multi_gets_ = 0;
    longest_ = {};
    last_refusals_.clear();
    return broken_.empty() ? line : "broken: " + broken_;
  }

  std::string keep() {
    for (size_t tries = 0; tries < kKeepTriesMax && kept_.count() < KeptReplies::kMax; ++tries) {
      while (in_flight_ >= arguments_.in_flight) client_.poll(std::chrono::milliseconds(10));
      if (tries % 8 == 0) {
        read_several(true);
        continue;
      }
      Key& key = keys_[rng_.below(keys_.size())];
      if (!key.busy && !key.unknown) read(key, true);
    }
    while (in_flight_ > 0) client_.poll(std::chrono::milliseconds(10));
    return broken_.empty() ? absl::StrCat("kept replies=", kept_.count()) : "broken: " + broken_;
  }

  std::string check() {
    size_t counted = 0;
    if (const std::string changed = kept_.check_and_drop(); !changed.empty()) broken(changed);
    for (Key& key : keys_) {
      while (in_flight_ >= arguments_.in_flight) client_.poll(std::chrono::milliseconds(10));
      read(key, false);
    }
    while (in_flight_ > 0) client_.poll(std::chrono::milliseconds(10));
    for (Sum& sum : sums_) {
      sum.is_read = false;
      read_sum(sum, true);
    }
    while (in_flight_ > 0) client_.poll(std::chrono::milliseconds(10));
    if (!broken_.empty()) return "broken: " + broken_;
    int64_t added = 0;
    for (const Sum& sum : sums_) {
      if (!sum.is_read) return absl::StrCat("broken: ", sum.name, " could not be read: ", last_read_failure_);
      added += sum.acknowledged;
    }
    size_t present = 0;
    for (const Key& key : keys_) {
      if (key.unknown) return absl::StrCat("broken: ", key.name, " could not be read: ", last_read_failure_);
      if (key.may_be.front()) ++present;
      if (key.counts && key.may_be.front()) counted += std::strtoull(key.may_be.front()->c_str(), nullptr, 10);
    }
    return absl::StrCat("checked keys=", keys_.size(), " present=", present, " counted=", counted, " added=", added);
  }

  /// A little of everything.
  void run() {
    while (loading_ && in_flight_ < arguments_.in_flight && broken_.empty() && may_begin()) {
      if (!sums_.empty() && rng_.chance(0.1)) {
        Sum& sum = sums_[rng_.below(sums_.size())];
        rng_.chance(0.2) ? read_sum(sum, false) : add(sum);
        continue;
      }
      if (rng_.chance(0.05)) {
        read_several(rng_.chance(0.3));
        continue;
      }
      Key& key = keys_[rng_.below(keys_.size())];
      if (key.busy || key.unknown) break;
      if (rng_.chance(0.2)) {
        read(key, rng_.chance(0.3));
      } else if (key.counts) {
        count(key);
      } else if (rng_.chance(0.1)) {
        begin(key);
        started(key, client_.remove(arguments_.table, key.name, {},
                                    [this, &key](WriteResult&& result) { written(key, std::nullopt, result); }));
      } else {
        put(key);
      }
    }
    client_.poll(std::chrono::milliseconds(loading_ ? 1 : 20));
  }

 private:
  /// Whether the rate allows one more operation now. What was not begun in time is not made up for.
  bool may_begin() {
    if (arguments_.rate == 0) return true;
    const Clock::time_point now = Clock::now();
    if (now < next_begin_) return false;
    next_begin_ = std::max(next_begin_, now - std::chrono::milliseconds(10)) +
                  std::chrono::nanoseconds(std::chrono::seconds(1)) / static_cast<int64_t>(arguments_.rate);
    return true;
  }

  void begin(Key& key) {
    key.busy = true;
    key.began = Clock::now();
    ++in_flight_;
  }

  void started(Key& key, const absl::Status& status) {
    if (status.ok()) return;
    finish(key);
    broken(absl::StrCat("not submitted: ", status.ToString()));
  }

  void finish(Key& key) {
    key.busy = false;
    --in_flight_;
    longest_ = std::max(longest_, std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - key.began));
  }

  void put(Key& key) {
    std::string value = absl::StrCat(key.name, " write ", ++writes_, " ");
    value.resize(value.size() + rng_.below(rng_.chance(0.02) ? 60 * arguments_.value_bytes : arguments_.value_bytes),
                 static_cast<char>('a' + writes_ % 26));
    begin(key);
    started(key, client_.put(arguments_.table, key.name, value, {},
                             [this, &key, value](WriteResult&& result) { written(key, value, result); }));
  }

  void count(Key& key) {
    const auto& now = key.may_be.front();
    std::string next = now ? absl::StrCat(std::strtoull(now->c_str(), nullptr, 10) + 1) : "1";
    WriteOptions options;
    if (now) {
      options.if_version = key.version;
    } else {
      options.if_absent = true;
    }
    begin(key);
    started(key, client_.put(arguments_.table, key.name, next, options, [this, &key, next](WriteResult&& result) {
      if (absl::IsFailedPrecondition(result.status) || absl::IsAlreadyExists(result.status)) {
        broken(absl::StrCat(key.name, " is not what it was: ", result.status.ToString()));
      }
      written(key, next, result);
    }));
  }

  void sum_started(const absl::Status& status) {
    if (status.ok()) return;
    --in_flight_;
    broken(absl::StrCat("not submitted: ", status.ToString()));
  }

  void add(Sum& sum) {
    ++in_flight_;
    ++sum.under_way;
    const auto began = Clock::now();
    sum_started(client_.add(arguments_.table, sum.name, 1, {}, [this, &sum, began](WriteResult&& result) {
      --in_flight_;
      --sum.under_way;
      note(sum, began,
           absl::StrCat("add: ", result.ok() ? absl::StrCat(result.value) : result.status.ToString(),
                        result.may_have_been_applied ? " (unknown)" : ""));
      if (result.ok()) {
        ++acknowledged_;
        ++sum.acknowledged;
        if (!sum.told.insert(result.value).second) {
          broken(absl::StrCat(sum.name, " was ", result.value, " for two writes"));
        }
      } else if (result.may_have_been_applied) {
        ++unknown_;
        ++sum.unknown;
      } else {
        ++refused_;
        last_refusals_[result.status.raw_code()] = result.status.ToString();
      }
    }));
  }

  /// `settles`: nothing raises it meanwhile, so that what is read is what it is.
  void read_sum(Sum& sum, bool settles) {
    ++in_flight_;
    const int64_t least = sum.acknowledged;
    const auto began = Clock::now();
    sum_started(client_.get(arguments_.table, sum.name, {}, [this, &sum, least, settles, began](GetResult&& result) {
      --in_flight_;
      ++reads_;
      if (!result.ok() && !absl::IsNotFound(result.status)) {
        last_read_failure_ = result.status.ToString();
        ++failed_reads_;
        return;
      }
      const int64_t is = result.ok() ? std::strtoll(result.value.str().c_str(), nullptr, 10) : 0;
      const int64_t most = sum.acknowledged + sum.under_way + sum.unknown;
      if (is < least || is > most) {
        return broken(absl::StrCat(sum.name, " is ", is, ", not ", least, " to ", most, since(began), " (version ",
                                   result.version, "); before: ", absl::StrJoin(sum.last, "; ")));
      }
      note(sum, began, absl::StrCat("get: ", is, " of ", least, " to ", most, settles ? ", settled" : ""));
      if (!settles) return;
      sum.is_read = true;
      sum.acknowledged = is;
      sum.unknown = 0;
      sum.told.clear();
    }));
  }

  /// Since the client began.
  std::string since(Clock::time_point began) const {
    const auto ms = [this](Clock::time_point time) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(time - began_).count();
    };
    return absl::StrCat(" from ", ms(began), " to ", ms(Clock::now()), " ms");
  }

  void note(Sum& sum, Clock::time_point began, const std::string& what) {
    sum.last.push_back(absl::StrCat(what, since(began)));
    if (sum.last.size() > kNotesMax) sum.last.pop_front();
  }

  void written(Key& key, const std::optional<std::string>& value, const WriteResult& result) {
    finish(key);
    const bool absent_before = absl::IsNotFound(result.status);  // a delete of nothing
    if (result.ok() || absent_before) {
      ++acknowledged_;
      key.may_be = {value};
      if (!result.ok() || result.version == 0) return;
      if (result.version <= key.version) {
        broken(absl::StrCat(key.name, " got version ", result.version, " after ", key.version));
      }
      key.version = result.version;
    } else if (result.may_have_been_applied) {
      ++unknown_;
      key.unknown = true;
      key.may_be.push_back(value);
    } else {
      ++refused_;
      last_refusals_[result.status.raw_code()] = result.status.ToString();
    }
  }

  void read(Key& key, bool keeps) {
    begin(key);
    started(key, client_.get(arguments_.table, key.name, {}, [this, &key, keeps](GetResult&& result) {
      finish(key);
      ++reads_;
      std::optional<std::string> value;
      if (result.ok()) value = result.value.str();
      was_read(key, result.status, result.version, value);
      if (keeps && result.ok()) kept_.keep(key.name, std::move(result));
    }));
  }

  /// With one MULTI_GET, of keys of any shards.
  void read_several(bool keeps) {
    std::vector<Key*> keys;
    for (size_t i = 1 + rng_.below(kMultiGetKeysMax); i > 0; --i) {
      Key& key = keys_[rng_.below(keys_.size())];
      if (key.busy || key.unknown) continue;
      key.busy = true;
      key.began = Clock::now();
      keys.push_back(&key);
    }
    if (keys.empty()) {
      client_.poll(std::chrono::milliseconds(1));
      return;
    }
    std::vector<std::string_view> names;
    for (const Key* key : keys) names.push_back(key->name);
    ++in_flight_;
    const absl::Status status =
        client_.multi_get(arguments_.table, names, {}, [this, keys, keeps](MultiGetResult&& result) {
          were_read(keys, result);
          if (keeps && broken_.empty()) kept_.keep(std::move(result));
        });
    if (status.ok()) return;
    --in_flight_;
    for (Key* key : keys) key->busy = false;
    broken(absl::StrCat("not submitted: ", status.ToString()));
  }

  void were_read(const std::vector<Key*>& keys, const MultiGetResult& result) {
    --in_flight_;
    ++multi_gets_;
    if (result.entries.size() != keys.size()) {
      broken(absl::StrCat("a MULTI_GET of ", keys.size(), " keys has ", result.entries.size(), " answers"));
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      ++in_flight_;
      finish(*keys[i]);
      if (i >= result.entries.size()) continue;
      const KeyResult& entry = result.entries[i];
      std::optional<std::string> value;
      if (entry.status.ok()) value = std::string(entry.value);
      was_read(*keys[i], entry.status, entry.version, value);
    }
  }

  void was_read(Key& key, const absl::Status& status, uint64_t version, const std::optional<std::string>& value) {
    if (!status.ok() && !absl::IsNotFound(status)) {
      last_read_failure_ = status.ToString();
      ++failed_reads_;
      if (!loading_) key.unknown = true;
      return;
    }
    if (std::ranges::find(key.may_be, value) == key.may_be.end()) {
      return broken(absl::StrCat(
          key.name, " has ", describe(value), " at version ", version, ", not ",
          absl::StrJoin(key.may_be, " or ", [](std::string* out, const auto& one) { *out += describe(one); }), " at ",
          key.version));
    }
    if (version < key.version && status.ok()) {
      broken(absl::StrCat(key.name, " went back from version ", key.version, " to ", version));
    }
    if (key.unknown && loading_) return;
    key.may_be = {value};
    key.unknown = false;
    key.version = std::max(key.version, version);
  }

  static std::string describe(const std::optional<std::string>& value) {
    return value ? absl::StrCat("'", value->substr(0, 40), "' (", value->size(), " bytes)") : "nothing";
  }

  void broken(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  static constexpr size_t kNotesMax = 40;
  static constexpr size_t kMultiGetKeysMax = 8;
  static constexpr size_t kKeepTriesMax = 1000;

  const Arguments arguments_;
  const Clock::time_point began_ = Clock::now();
  AsyncClient& client_;
  Rng rng_;
  std::vector<Key> keys_;
  std::vector<Sum> sums_;
  bool loading_ = false;
  size_t in_flight_ = 0;
  uint64_t writes_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t unknown_ = 0;
  uint64_t refused_ = 0;
  uint64_t reads_ = 0;
  uint64_t failed_reads_ = 0;
  uint64_t multi_gets_ = 0;
  KeptReplies kept_;
  Clock::time_point next_begin_{};
  std::chrono::milliseconds longest_{};  // that an operation on a key has taken
  uint64_t backup_reads_before_ = 0;
  std::map<int, std::string> last_refusals_;
  std::string last_read_failure_;
  std::string broken_;
};

void serve(DurabilityClient& client) {
  std::mutex mutex;
  std::vector<std::string> commands;
  std::thread reader([&] {
    char line[64];
    bool open = true;
    while (open) {
      open = std::fgets(line, sizeof line, stdin) != nullptr && std::strcmp(line, "quit\n") != 0;
      const std::lock_guard lock(mutex);
      commands.emplace_back(open ? line : "quit\n");
    }
  });
  for (bool quit = false; !quit;) {
    client.run();
    std::vector<std::string> now;
    {
      const std::lock_guard lock(mutex);
      now.swap(commands);
    }
    for (const std::string& command : now) {
      std::string answer = "unknown command";
      if (command == "load\n") {
        client.load();
        answer = "loading";
      } else if (command == "pause\n") {
        answer = client.pause();
      } else if (command == "keep\n") {
        answer = client.keep();
      } else if (command == "check\n") {
        answer = client.check();
      } else if (command == "quit\n") {
        quit = true;
        answer = "bye";
      }
      std::puts(answer.c_str());
      std::fflush(stdout);
    }
  }
  static_cast<void>(client.pause());
  reader.join();
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  skua::kv::DurabilityArguments arguments;
  if (!arguments.parse(argc, argv)) {
    std::fprintf(stderr,
                 "usage: durability_client --control HOST:PORT --table NAME [--keys N] [--counters N] [--sums N] "
                 "[--in-flight N] [--value-bytes N] [--rate N] [--seed N]\n");
    return 2;
  }
  auto client = skua::kv::AsyncClient::create(
      {.control_address = arguments.control, .timeout = std::chrono::seconds(20), .seed = arguments.seed});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 2;
  }
  skua::kv::DurabilityClient durability(arguments, **client);
  skua::kv::serve(durability);
  return 0;
}
