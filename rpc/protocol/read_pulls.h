// ReadPulls: the READs of an endpoint for large messages that it fetches itself.
//
//    messages being fetched      A [####......]   B [#.........]   C [..........]
//    chunks, one of each in turn   A3 B2 C1 A4 B3 ...      at most `reads_max` in flight
//
// Fetching is the receiver's own flow control. However many peers want to send, only what was asked for comes in, and a
// large message does not delay small ones. If one READ of a message fails, no more are posted for it; those in flight
// are waited for, because the device still writes to the message's memory. For the same reason a fetch goes on here
// when its session ends. In both cases the owner is told at the end. The session and request number tell whether it
// still matters.
//
// Pure: READs are handed out by next(), and come back by on_completion().
#ifndef SKUA_RPC_PROTOCOL_READ_PULLS_H_
#define SKUA_RPC_PROTOCOL_READ_PULLS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/base/intrusive_list.h"
#include "rpc/base/lease.h"
#include "rpc/protocol/announcement.h"
#include "rpc/wire/read_list.h"

namespace skua::rpc {

/// Thread: the endpoint's.
class ReadPulls {
 public:
  struct Limits {
    uint32_t reads_max = 16;
    uint32_t chunk_bytes = 256u << 10;
  };
  struct Read {
    uint32_t peer = 0;
    uint64_t connection = 0;
    std::byte* to = nullptr;
    RemoteSpan from;
    uint64_t cookie = 0;  ///< below 2^63
  };
  struct Finished {
    MessageOwner owner;
    bool ok = false;
    /// The message's memory. If ok, it has the whole message.
    Lease message;
  };

  explicit ReadPulls(const Limits& limits) : limits_(limits) {}
  /// No READ may be in flight (checked).
  ~ReadPulls();
  ReadPulls(const ReadPulls&) = delete;
  ReadPulls& operator=(const ReadPulls&) = delete;

  /// Fetches the list's spans. They go behind the list's head, which the caller copies. `to` has room for the whole
  /// message. `message` is the lease of that memory, and is held until the end.
  void start(uint32_t peer, const MessageOwner& owner, const ReadList& list, std::byte* to, Lease&& message);
  /// The next READ to post. False: none may be posted now. Give a READ that could not be posted to take_back() at once.
  bool next(Read& out);
  void take_back(const Read& read);
  /// A READ ended. Returns its message if it was the message's last READ. Unknown cookies are ignored.
  std::optional<Finished> on_completion(uint64_t cookie, bool ok);

  /// Number of messages that are being fetched.
  [[nodiscard]] size_t size() const { return active_count_; }
  [[nodiscard]] uint32_t reads_in_flight() const { return in_flight_; }
  /// Calls `fn(peer)` for each message with a READ in flight, including messages of sessions that have ended.
  template <typename Fn>
  void for_each_peer(Fn fn) const {
    for (const auto& pull : pulls_) {
      if (pull->active && pull->in_flight > 0) fn(pull->peer);
    }
  }

 private:
  struct Pull {
    ListHook hook;  // in turn_ while there are chunks left to ask for
    uint32_t index = 0;
    uint32_t generation = 1;
    uint32_t peer = 0;
    uint64_t connection = 0;
    MessageOwner owner;
    Lease message;
    std::byte* to = nullptr;
    uint32_t span_count = 0;
    std::array<RemoteSpan, ReadList::kSpansMax> spans{};
    uint32_t span = 0;    // the span that is asked for next,
    uint32_t offset = 0;  // from this offset on
    uint32_t in_flight = 0;
    bool active = false;
    bool failed = false;
  };

  std::optional<Finished> finish_if_done(Pull& pull);

  const Limits limits_;
  std::vector<std::unique_ptr<Pull>> pulls_;
  std::vector<uint32_t> free_;
  IntrusiveList<Pull, &Pull::hook> turn_;
  uint32_t in_flight_ = 0;
  size_t active_count_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_READ_PULLS_H_
