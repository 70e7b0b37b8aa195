// Announcement: a large message of ours that its receiver reads (session_caller_read.cc). The message's sslot keeps it.
//
//    announce() --> pending --kLent--> readable: its list may be sent --reset()--> memory is taken back (rpc/loans.h)
//                      \---- the connection ended ----> failed: the message has to go in packets
//
// The loans keep the memory: it stays unchanged until the peer's access to it has ended, whatever the session does.
#ifndef SKUA_RPC_PROTOCOL_ANNOUNCEMENT_H_
#define SKUA_RPC_PROTOCOL_ANNOUNCEMENT_H_

#include <cstdint>
#include <utility>

#include "rpc/base/message.h"

namespace skua::rpc {

/// Names a large message: the request or the response of one call of one session.
struct MessageOwner {
  uint32_t session_index = 0;
  uint32_t session_generation = 0;
  bool is_request = false;
  uint32_t req_num = 0;
};

/// Lends the memory of announced messages.
class Lender {
 public:
  enum class State : uint8_t { kPending, kReadable, kFailed };
  [[nodiscard]] virtual State state_of(uint32_t announcement) const = 0;
  /// The peer no longer needs the memory, or is no longer wanted to read it.
  virtual void end(uint32_t announcement) = 0;

 protected:
  ~Lender() = default;
};

/// Thread: the endpoint's. Its lender must outlive it.
class Announcement {
 public:
  Announcement() = default;
  /// `list`: a message with the encoded ReadList, to be sent. Without a lender the announcement is readable at once.
  explicit Announcement(MessagePtr list, Lender* lender = nullptr, uint32_t number = 0)
      : list_(std::move(list)), lender_(lender), number_(number) {}
  ~Announcement() { reset(); }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  Announcement(Announcement&& other) noexcept
      : list_(std::move(other.list_)), lender_(std::exchange(other.lender_, nullptr)), number_(other.number_) {}
  Announcement& operator=(Announcement&& other) noexcept {
    if (this == &other) return *this;
    reset();
    list_ = std::move(other.list_);
    lender_ = std::exchange(other.lender_, nullptr);
    number_ = other.number_;
    return *this;
  }

  explicit operator bool() const { return static_cast<bool>(list_); }
  [[nodiscard]] const MessagePtr& list() const { return list_; }
  [[nodiscard]] bool pending() const { return state() == Lender::State::kPending; }
  [[nodiscard]] bool failed() const { return state() == Lender::State::kFailed; }
  void reset() {
    if (!list_) return;
    list_.reset();
    if (Lender* lender = std::exchange(lender_, nullptr); lender != nullptr) lender->end(number_);
  }

 private:
  [[nodiscard]] Lender::State state() const {
    return lender_ == nullptr ? Lender::State::kReadable : lender_->state_of(number_);
  }

  MessagePtr list_;
  Lender* lender_ = nullptr;
  uint32_t number_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_ANNOUNCEMENT_H_
