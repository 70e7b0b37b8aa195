// A shard with two replicas, its clients, and somebody who wants all the room of its completion records.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/completions/completion_limits.h"
#include "kvstore/completions/completions.h"
#include "kvstore/storage/completion_rows.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/batch_results.h"
#include "tests/kvstore/completions/completion_testing.h"

namespace skua::kv {
namespace {

using Verdict = CompletionTable::Verdict;

using Database = std::map<std::string, InternalRow>;

/// What follows the log in a replica: its rows, on their way into its database.
class Follower {
 public:
  Follower() { rows_->set_limits(kFewRecords); }

  void record(const Completion& completion, uint64_t index, uint64_t now_ms) {
    rows_->record(completion, index, now_ms);
    index_ = index;
  }
  const Database& write() {
    std::vector<AppliedEffect> effects;
    rows_->collect(index_, effects);
    for (const AppliedEffect& effect : effects) {
      const std::string key(effect.key);
      if (effect.value) database_[key] = {key, std::string(as_string_view(*effect.value)), effect.version};
      if (!effect.value) database_.erase(key);
    }
    rows_->written();
    return database_;
  }
  [[nodiscard]] std::vector<InternalRow> load() {
    std::vector<InternalRow> loaded;
    for (const auto& [key, row] : write()) loaded.push_back(row);
    return loaded;
  }
  void restart() {
    const std::vector<InternalRow> loaded = load();
    rows_ = std::make_unique<CompletionRows>();
    rows_->set_limits(kFewRecords);
    ASSERT_TRUE(rows_->load(loaded).ok());
  }
  [[nodiscard]] const CompletionTable& table() const { return rows_->table(); }

 private:
  std::unique_ptr<CompletionRows> rows_ = std::make_unique<CompletionRows>();
  Database database_;
  uint64_t index_ = 0;
};

/// The dumb twin knows all that was ever executed, and with which answer.
class TwoReplicas {
 public:
  explicit TwoReplicas(uint64_t seed) : rng_(seed) {
    primary_->set_limits(kFewRecords);
    for (size_t i = 0; i < 30; ++i) clients_.push_back({.id = ++last_id_});
  }

  void step() {
    now_ms_ += rng_.chance(0.005)  ? rng_.below(2 * kClientSilentMsMax)
               : rng_.chance(0.05) ? rng_.below(2 * kCompletionIdleMsMin)
                                   : rng_.below(3) * rng_.below(2000);
    if (rng_.chance(0.3)) begin_write();
    if (rng_.chance(0.5)) send_one();
    if (rng_.chance(0.2)) repeat_any();
    if (rng_.chance(0.2)) end_one();
    if (rng_.chance(flooding_ ? 0.8 : 0.02)) flood();
    if (rng_.chance(0.01)) flooding_ = !flooding_;
    if (rng_.chance(0.02)) fail_over();
    if (rng_.chance(0.03)) second_.restart();
    if (rng_.chance(0.02)) compare();
  }

  size_t executed() const { return executed_.size(); }
  size_t renumbered = 0;
  size_t unknown = 0;
  size_t full = 0;

 private:
  struct Write {
    uint64_t seq = 0;
    uint64_t sent_ms = 0;
    size_t batch_ops = 0;
    bool uncertain = false;
  };
  struct Client {
    uint64_t id = 0;
    uint64_t last_seq = 0;
    std::deque<Write> lane{};
  };
  struct Attempt {
    RequestId id{};
    uint64_t sent_ms = 0;  // the first attempt of the write
    size_t batch_ops = 0;
  };
  using Key = std::pair<uint64_t, uint64_t>;

  static Key key_of(const RequestId& id) { return {id.client_id, id.seq}; }

  Client& any_client() { return clients_[std::min(rng_.below(clients_.size()), rng_.below(clients_.size()))]; }

  void begin_write() {
    Client& client = any_client();
    if (rng_.chance(0.05)) client = {.id = ++last_id_};
    if (client.lane.size() > 5) return;
    client.lane.push_back({.seq = ++client.last_seq, .sent_ms = now_ms_, .batch_ops = rng_.below(2) * rng_.below(12)});
  }

  void send_one() {
    Client& client = any_client();
    std::erase_if(client.lane, [&](const Write& write) { return now_ms_ - write.sent_ms > kClientSilentMsMax; });
    if (client.lane.empty()) return;
    Write& write = client.lane[rng_.below(client.lane.size())];
    const Attempt attempt = {{client.id, write.seq, client.lane.front().seq}, write.sent_ms, write.batch_ops};
    attempts_.push_back(attempt);
    if (attempts_.size() > 300) attempts_.pop_front();
    const Fate fate = deliver(attempt);
    if (fate == Fate::kUnderWay) write.uncertain = true;
    if (fate == Fate::kAnswered && rng_.chance(0.3)) write.uncertain = true;  // the answer is lost
    if (fate == Fate::kAnswered && !write.uncertain) erase(client, write.seq);
    if (fate == Fate::kAnswered && write.uncertain && rng_.chance(0.7)) erase(client, write.seq);
    if (fate == Fate::kStale) stale(client, write);
  }

  void stale(Client& client, Write& write) {
    if (write.uncertain) {
      ++unknown;
      return erase(client, write.seq);
    }
    ++renumbered;
    ASSERT_FALSE(executed_.contains({client.id, write.seq}));
    Write anew = write;
    client.last_seq = std::max(client.last_seq, primary_->first_taken(client.id, now_ms_) - 1);
    anew.seq = ++client.last_seq;
    erase(client, write.seq);
    client.lane.push_back(anew);
  }

  static void erase(Client& client, uint64_t seq) {
    std::erase_if(client.lane, [&](const Write& write) { return write.seq == seq; });
  }

  /// Comes late, or again; of whatever client and write.
  void repeat_any() {
    if (attempts_.empty()) return;
    const Attempt attempt = attempts_[rng_.below(attempts_.size())];
    if (now_ms_ - attempt.sent_ms > kClientSilentMsMax) return;
    // Its client must not number anew what this one may execute.
    for (Client& client : clients_) {
      if (client.id != attempt.id.client_id) continue;
      for (Write& write : client.lane) write.uncertain |= write.seq == attempt.id.seq;
    }
    static_cast<void>(deliver(attempt));
  }

  enum class Fate { kAnswered, kUnderWay, kNothing, kStale };

  Fate deliver(const Attempt& attempt) {
    const RequestId& id = attempt.id;
    if (under_way_.contains(key_of(id))) return Fate::kUnderWay;
    if (const CompletionTable::Result* kept = primary_->find(id, now_ms_)) {
      if (kept->has_effect) {
        EXPECT_EQ(kept->version, executed_[key_of(id)]) << id.client_id << " " << id.seq;
      }
      EXPECT_EQ(!kept->has_effect, refused_.contains(key_of(id)));
      return Fate::kAnswered;
    }
    switch (primary_->begin(id, now_ms_, attempt.batch_ops * kBatchResultBytes)) {
      case Verdict::kStale: return Fate::kStale;
      case Verdict::kFull: ++full; return Fate::kNothing;
      case Verdict::kIncomplete: return Fate::kNothing;
      case Verdict::kNew: break;
    }
    EXPECT_FALSE(executed_.contains(key_of(id))) << "client " << id.client_id << " seq " << id.seq << " at " << now_ms_;
    if (const auto refused = refused_.find(key_of(id)); refused != refused_.end()) {
      EXPECT_GE(now_ms_ - refused->second, kCompletionIdleMsMin) << "client " << id.client_id << " seq " << id.seq;
      refused_.erase(refused);  // no attempt was that long on its way: its client asks again
    }
    under_way_[key_of(id)] = attempt;
    if (rng_.chance(0.2)) return Fate::kUnderWay;
    return end(attempt);
  }

  void end_one() {
    if (!under_way_.empty()) static_cast<void>(end(under_way_.begin()->second));
  }

  Fate end(const Attempt attempt) {  // NOLINT: a copy, because it is erased
    const RequestId& id = attempt.id;
    under_way_.erase(key_of(id));
    const double what = static_cast<double>(rng_.below(100));
    const bool executes = what < 80;
    const bool refuses = what >= 80 && what < 90;
    if (executes) {
      std::string results;
      for (size_t i = 0; i < attempt.batch_ops; ++i) append_batch_result({}, results);
      const Completion done = {id, 0, as_byte_span(results)};
      executed_[key_of(id)] = ++index_;
      primary_->record(done, index_, now_ms_);
      first_.record(done, index_, now_ms_);
      second_.record(done, index_, now_ms_);
    }
    primary_->finish(id, attempt.batch_ops * kBatchResultBytes);
    if (refuses) {
      primary_->refuse(id, {.seq = id.seq, .has_effect = false, .status = KvStatus::kNotFound}, now_ms_);
      refused_[key_of(id)] = now_ms_;
    }
    return executes || refuses ? Fate::kAnswered : Fate::kNothing;
  }

  /// New ids, with one write or two, some with numbers that are to spoil the floor. A batch each.
  void flood() {
    const uint64_t id = ++last_id_;
    uint64_t seq = rng_.chance(0.5) ? 1 : rng_.below(1000) + 1;
    if (rng_.chance(0.5)) seq = primary_->first_taken(id, now_ms_) + rng_.below(1000);
    if (rng_.chance(0.1)) seq = UINT64_MAX - 1 - rng_.below(3);
    if (rng_.chance(0.1)) seq = kCompletionSeqStepMax - rng_.below(3);
    for (uint64_t n = 0; n < 1 + rng_.below(2); ++n) {
      const Attempt attempt = {{id, seq + n, seq}, now_ms_, rng_.below(25)};
      attempts_.push_back(attempt);
      static_cast<void>(deliver(attempt));
    }
  }

  /// What is under way ends with the primary, without effect.
  void fail_over() {
    under_way_.clear();
    refused_.clear();
    primary_ = std::make_unique<CompletionTable>();
    primary_->set_limits(kFewRecords);
    ASSERT_TRUE(load_completions(rng_.chance(0.5) ? first_.load() : second_.load(), *primary_).ok());
  }

  void compare() {
    const Database& first = first_.write();
    const Database& second = second_.write();
    ASSERT_EQ(first.size(), second.size());
    for (auto a = first.begin(), b = second.begin(); a != first.end(); ++a, ++b) {
      ASSERT_EQ(a->first, b->first);
      ASSERT_EQ(a->second.value, b->second.value);
      if (a->first != completion_key(CompletionTable::kFloorClient)) {
        ASSERT_EQ(a->second.version, b->second.version);
      }
    }
    ASSERT_LE(first_.table().clients(), kFewRecords.clients_max + 8);
    for (const CompletionTable* table :
         {&first_.table(), &second_.table(), static_cast<const CompletionTable*>(primary_.get())}) {
      ASSERT_LE(table->counts().bytes, kFewRecords.bytes_max);
      ASSERT_LE(table->counts().refused_bytes, kFewRecords.refused_bytes_max);
      ASSERT_LE(table->clients(), kFewRecords.clients_max + kFewRecords.newcomers_max + 8);
    }
  }

  Rng rng_;
  uint64_t now_ms_ = 1'000'000;
  uint64_t index_ = 0;
  uint64_t last_id_ = 0;
  bool flooding_ = false;
  std::unique_ptr<CompletionTable> primary_ = std::make_unique<CompletionTable>();
  Follower first_;
  Follower second_;
  std::vector<Client> clients_;
  std::deque<Attempt> attempts_;
  std::map<Key, Attempt> under_way_;
  std::map<Key, uint64_t> executed_;
  std::map<Key, uint64_t> refused_;
};

TEST(CompletionReplicas, NothingIsExecutedTwiceAndReplicasAgree) {
  size_t executed = 0;
  size_t renumbered = 0;
  size_t unknown = 0;
  size_t full = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    TwoReplicas world(seed);
    for (int i = 0; i < 4000; ++i) {
      world.step();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "step " << i;
    }
    executed += world.executed();
    renumbered += world.renumbered;
    unknown += world.unknown;
    full += world.full;
  }
  EXPECT_GT(executed, 10'000u);
  EXPECT_GT(renumbered, 100u);
  EXPECT_GT(unknown, 10u);
  EXPECT_GT(full, 100u);
}

}  // namespace
}  // namespace skua::kv
