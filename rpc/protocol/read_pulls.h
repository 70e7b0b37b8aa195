// ReadPulls: which READs an endpoint has under way for the large messages that it fetches by itself.
//
//    messages being fetched      A [####......]   B [#.........]   C [..........]
//    chunks, one of each in turn   A3 B2 C1 A4 B3 ...      at most `reads_max` in flight
//
// Fetching is the receiver's own flow control: however many peers want to send, no more comes in than this asks for, and a
// large message does not keep small ones waiting. A message that one READ failed for is over; what is in flight of it is waited
// for, because the device still writes to its memory. So nobody's memory is given back early, not when the session ended either:
// the fetch goes on to its end here, and its owner is told, who knows by (session, request number) whether that still matters.
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
    /// The memory, all of the message in it if ok.
    Lease message;
  };

  explicit ReadPulls(const Limits& limits) : limits_(limits) {}
  /// Nothing may be in flight (checked).
  ~ReadPulls();
  ReadPulls(const ReadPulls&) = delete;
  ReadPulls& operator=(const ReadPulls&) = delete;

  /// Fetches the list's spans to behind its head, which the caller copies: `to` has room for the whole message, `message` covers
  /// it and is held until the end.
  void start(uint32_t peer, const MessageOwner& owner, const ReadList& list, std::byte* to, Lease&& message);
  /// The next READ to be posted; false: none may be now. A READ that cannot be posted is given to take_back() at once.
  bool next(Read& out);
  void take_back(const Read& read);
  /// A READ ended. The message it was the last of, or nothing. Unknown cookies are ignored.
  std::optional<Finished> on_completion(uint64_t cookie, bool ok);

  /// Messages being fetched.
  [[nodiscard]] size_t size() const { return active_count_; }
  [[nodiscard]] uint32_t reads_in_flight() const { return in_flight_; }
  /// Calls `fn(peer)` for each message with a READ in flight, also of sessions that have ended since.
  template <typename Fn>
  void for_each_peer(Fn fn) const {
    for (const auto& pull : pulls_) {
      if (pull->active && pull->in_flight > 0) fn(pull->peer);
    }
  }

 private:
  struct Pull {
    ListHook hook;  // in turn_ while there are chunks to ask for
    uint32_t index = 0;
    uint32_t generation = 1;
    uint32_t peer = 0;
    uint64_t connection = 0;
    MessageOwner owner;
    Lease message;
    std::byte* to = nullptr;
    uint32_t span_count = 0;
    std::array<RemoteSpan, ReadList::kSpansMax> spans{};
    uint32_t span = 0;    // the one being asked for,
    uint32_t offset = 0;  // from here on
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
