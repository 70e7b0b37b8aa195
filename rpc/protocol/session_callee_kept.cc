// Responses that are kept long, with memory of the application's (a message's bodies, or what the peer may read).
//
// A response is kept until its sslot is used again, or a release comes. A release is sent once, for responses above
// 4,096 bytes, so it can be lost; and an sslot may not be used again for long. The bodies of a response may be a region
// that its owner wants to give to somebody else. So the callee asks, and it is the one that has something to lose:
//
//   caller                                      callee
//     | <-----------------------  response n    |   kept, with its bodies
//     |  release n  ------------> (lost)        |
//   done                                        |   kept_question_ns later, then 2, 4, ... 64 times that
//     | <--------  ack n (all of it), ping      |   "I have all of request n, and keep its answer"
//     |  release n, pong  --------------------> |   over: its memory goes
//
// The question is an ack, which every peer knows: a caller whose call waits still takes it for what it says, and asks
// for the response; one whose call is over sends a release, or, if it is older than this rule, nothing. One ack for
// each response that is kept, further and further apart, is all that such a caller costs.
//
// The ping is for the session. A peer that has closed it says that there is no such session, so a lost disconnect ends
// here; a peer that says nothing at all for peer_timeout is gone, as one that answers no call is (Session::run_liveness).
//
// Not on a reliable transport. A release is lost there only with its connection, whose end tells. And a caller there
// does not probe: an ack by a new connection would let it wait for a response that was lost with the old one.
#include <algorithm>

#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

constexpr uint32_t kQuestionDoublings = 6;

}  // namespace

/// The response was asked for just now: it is not the time for questions.
void CalleeHalf::keep_in_mind(Slot& slot, TimeNs now) {
  if (context_.reliable || slot.response->body_count() == 0) return;
  slot.questions = 0;
  slot.question_ns = now + context_.options.kept_question_ns;
  if (slot.question_ns >= question_due_ns_) return;
  question_due_ns_ = slot.question_ns;
  context_.arm(question_due_ns_);
}

/// Returns when to look again.
TimeNs CalleeHalf::run_questions(TimeNs now) {
  if (now < question_due_ns_) return question_due_ns_;
  question_due_ns_ = kTimeNever;
  bool asks = false;
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    Slot& slot = slots_[i];
    if (slot.question_ns <= now) {
      // What waits for the wire, or for a loan, was not even sent yet.
      if (!slot.ready_hook.linked() && !slot.announced.pending()) {
        slot.ack_due = asks = true;
        make_ready(slot);
        slot.questions = std::min(slot.questions + 1, kQuestionDoublings);
      }
      slot.question_ns = now + (context_.options.kept_question_ns << slot.questions);
    }
    question_due_ns_ = std::min(question_due_ns_, slot.question_ns);
  }
  if (asks) {
    asked_ns_ = now;
    context_.session.send_ping();
  }
  return question_due_ns_;
}

}  // namespace skua::rpc
