// ConnectionDeadlines: which connections have passed their deadline. All have the same time limit, so deadlines come in
// the order of add(). Pure: time is an argument.
#ifndef SKUA_KVSTORE_GATEWAY_CONNECTION_DEADLINES_H_
#define SKUA_KVSTORE_GATEWAY_CONNECTION_DEADLINES_H_

#include <cstdint>
#include <deque>
#include <optional>

namespace skua::kv::gateway {

/// Connections that end earlier stay in the list. So the caller of take_due() checks whether the connection is there.
class ConnectionDeadlines {
 public:
  explicit ConnectionDeadlines(int64_t time_ms) : time_ms_(time_ms) {}

  void add(uint64_t id, int64_t now_ms) { waiting_.push_back({now_ms + time_ms_, id}); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// When the next one is due; 0: there is none.
  [[nodiscard]] int64_t next_ms() const { return waiting_.empty() ? 0 : waiting_.front().at_ms; }
  /// The next one that is due.
  [[nodiscard]] std::optional<uint64_t> take_due(int64_t now_ms) {
    if (waiting_.empty() || waiting_.front().at_ms > now_ms) return std::nullopt;
    const uint64_t id = waiting_.front().id;
    waiting_.pop_front();
    return id;
  }

 private:
  struct Waiting {
    int64_t at_ms;
    uint64_t id;
  };
  const int64_t time_ms_;
  std::deque<Waiting> waiting_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CONNECTION_DEADLINES_H_
