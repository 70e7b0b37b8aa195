// ReplyToken: gives answers to the endpoint (answers.h), on the endpoint's thread at once, from other threads through
// the mailbox.
#include <optional>
#include <utility>

#include "rpc/answers.h"
#include "rpc/base/check.h"
#include "rpc/endpoint.h"
#include "rpc/mailbox.h"

namespace skua::rpc {

void ReplyToken::dropped() {
  fail(absl::InternalError("the handler dropped its reply token"));
}

/// Most answers are small, and are given on the endpoint's thread: these take the short way.
void ReplyToken::reply(MessagePtr message) {
  if (message && reply_small(SentMessage(message))) [[likely]] {
    return;
  }
  answer(absl::OkStatus(), std::move(message));
}

void ReplyToken::reply(ByteSpan bytes) {
  if (bytes.size() <= FewBytes::kMax && reply_small(SentBytes(bytes))) [[likely]] {
    return;
  }
  const bool has_pool = mailbox_ != nullptr && mailbox_->on_owner_thread() && mailbox_->answers() != nullptr;
  MessagePtr message = has_pool ? mailbox_->answers()->make_message() : MessagePtr::make();
  message->append_copy(bytes);
  reply(std::move(message));
}

template <typename Sent>
bool ReplyToken::reply_small(Sent response) {
  if (mailbox_ == nullptr || !mailbox_->on_owner_thread()) return false;
  Answers* answers = mailbox_->answers();
  if (answers == nullptr || !answers->give_small(session_, req_num_, response)) return false;
  std::exchange(mailbox_, nullptr)->let_go_here();
  return true;
}

void ReplyToken::fail(const absl::Status& status) {
  SKUA_CHECK(!status.ok(), "fail() takes an error; use reply() for success");
  answer(status, MessagePtr());
}

SessionId ReplyToken::session() const {
  SKUA_CHECK(mailbox_ != nullptr && mailbox_->on_owner_thread(),
             "session() is for the endpoint's thread, before the answer");
  const Answers* const answers = mailbox_->answers();
  return answers == nullptr ? SessionId{} : answers->session_of(session_);
}

std::optional<Lease> ReplyToken::reserve(size_t bytes) {
  SKUA_CHECK(mailbox_ != nullptr && mailbox_->on_owner_thread(),
             "reserve() is for the endpoint's thread, before the answer");
  Answers* answers = mailbox_->answers();
  return answers == nullptr ? std::optional<Lease>() : answers->reserve(session_, bytes);
}

namespace {

/// Keeps a token's hold on the mailbox while the answer travels through the mailbox.
class TokenHold {
 public:
  explicit TokenHold(EndpointMailbox* mailbox) : mailbox_(mailbox) {}
  TokenHold(TokenHold&& other) noexcept : mailbox_(std::exchange(other.mailbox_, nullptr)) {}
  TokenHold& operator=(TokenHold&&) = delete;
  ~TokenHold() {
    if (mailbox_ != nullptr) mailbox_->let_go();
  }
  [[nodiscard]] EndpointMailbox* mailbox() const { return mailbox_; }

 private:
  EndpointMailbox* mailbox_;
};

}  // namespace

void ReplyToken::answer(const absl::Status& status, MessagePtr&& message) {
  SKUA_CHECK(mailbox_ != nullptr, "a reply token answers once; this one was used or moved from");
  EndpointMailbox* mailbox = std::exchange(mailbox_, nullptr);
  if (mailbox->on_owner_thread()) {
    Answers* answers = mailbox->answers();
    mailbox->let_go();
    if (answers == nullptr) return;
    answers->give(session_, slot_, req_num_, status, std::move(message));
    return;
  }
  answer_from_afar(mailbox, status, std::move(message));
}

void ReplyToken::answer_from_afar(EndpointMailbox* mailbox, const absl::Status& status, MessagePtr&& message) {
  TokenHold hold(mailbox);
  // The task keeps the hold. If the endpoint is gone, posting fails; then nobody waits for the answer.
  static_cast<void>(mailbox->post_waiting([hold = std::move(hold), session = session_, slot = slot_, req_num = req_num_,
                                           status, message = std::move(message)]() mutable {
    Answers* answers = hold.mailbox()->answers();
    if (answers == nullptr) return;
    answers->give(session, slot, req_num, status, std::move(message));
  }));
}

}  // namespace skua::rpc
