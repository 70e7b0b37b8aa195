// Loans: the memory of large messages that an endpoint lets its peers read.
//
//    session: announce() --> lend() each span --> kLent for each: the session sends the list
//             reset()    --> take_back() each --> kTakenBack for each: the message and its memory are released
//
// So the memory is released only when the device has ended the peer's access. Neither a peer that says that it is done,
// nor the end of a call or session, releases it.
#ifndef SKUA_RPC_LOANS_H_
#define SKUA_RPC_LOANS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpc/protocol/announcement.h"
#include "rpc/transport/one_sided.h"
#include "rpc/wire/read_list.h"

namespace skua::rpc {

/// Thread: the endpoint's.
class Loans final : public Lender {
 public:
  /// `wire`: null if the transport cannot lend; otherwise it must outlive this object.
  explicit Loans(OneSided* wire) : wire_(wire) {}

  /// Lends the message's bodies to `peer`. `list` is an empty message; the list is written into its head, and must fit
  /// `list_bytes_max`, the payload of one packet. Returns an empty announcement if the message has to go in packets.
  [[nodiscard]] Announcement announce(PeerId peer, const MessageOwner& owner, const MessagePtr& message,
                                      MessagePtr&& list, size_t list_bytes_max);
  /// Takes a completion of kind kLent or kTakenBack. Returns the owner of the announcement if this completion
  /// ended its pending state.
  std::optional<MessageOwner> on_completion(const OneSidedCompletion& completion);
  /// Releases all messages. Call it when no peer reaches any memory any more, and the transport must not be asked
  /// again.
  void abandon();

  /// Number of completions that are still to come.
  [[nodiscard]] uint32_t awaited() const { return awaited_; }
  /// Number of messages whose memory is held.
  [[nodiscard]] size_t size() const { return size_; }
  /// Calls `fn(peer)` for each of these messages.
  template <typename Fn>
  void for_each_peer(Fn fn) const {
    for (const Entry& entry : entries_) {
      if (entry.peer != kNoPeer) fn(entry.peer);
    }
  }

  // Lender.
  [[nodiscard]] State state_of(uint32_t announcement) const override;
  void end(uint32_t announcement) override;

 private:
  struct Entry {
    PeerId peer = kNoPeer;
    MessageOwner owner;
    MessagePtr message;
    uint32_t count = 0;
    uint32_t pending = 0;  // loans without their kLent
    uint32_t ending = 0;   // loans without their kTakenBack
    bool failed = false;
    bool ended = false;
    std::array<uint64_t, ReadList::kSpansMax> loans{};
  };

  std::optional<ReadList> lend_all(uint32_t number, PeerId peer, const Message& message);
  uint32_t take_entry();
  void free_entry(uint32_t number);

  OneSided* wire_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  uint32_t awaited_ = 0;
  size_t size_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_LOANS_H_
