// Responses that are kept for long and hold memory of the application's (a message's bodies, or what the peer may
// read).
//
// A response is kept until its sslot is used again, or a release comes. A release is sent once, and only for responses
// above 4,096 bytes, so it can be lost. An sslot may not be used again for long. The bodies of a response may be a
// region that its owner wants to use for something else. So the callee asks the caller:
//
//   caller                                      callee
//     | <-----------------------  response n    |   kept, with its bodies
//     |  release n  ------------> (lost)        |
//   done                                        |   kept_question_ns later, then 2, 4, ... 64 times that
//     | <--------  ack n (all of it), ping      |   "I have all of request n, and keep its answer"
//     |  release n, pong  --------------------> |   done: its memory is released
//
// The question is an ack, which every peer knows. A caller whose call still waits takes it as an ack, and asks for the
// response. A caller whose call is over sends a release. A caller of an older version, whose call is over, sends
// nothing; it costs one ack for each kept response, at growing intervals.
//
// The ping is for the session. A peer that has closed the session answers that there is no such session, so a lost
// disconnect is found out here. A peer that says nothing for peer_timeout is gone, like a peer that answers no call
// (Session::run_liveness).
//
// On a reliable transport there are no questions. A release is lost only with its connection, whose end is reported.
// And a caller does not probe there: an ack over a new connection would let it wait for a response that was lost with
// the old one.
#include <algorithm>

#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

constexpr uint32_t kQuestionDoublings = 6;

}  // namespace

/// The response is due to be sent (again), so the first question comes kept_question_ns later.
void CalleeHalf::keep_in_mind(Slot& slot, TimeNs now) {
  if (context_.reliable || slot.response->body_count() == 0) return;
  slot.questions = 0;
  slot.question_ns = now + context_.options.kept_question_ns;
  if (slot.question_ns >= question_due_ns_) return;
  question_due_ns_ = slot.question_ns;
  context_.arm(question_due_ns_);
}

/// Returns when to run it next.
TimeNs CalleeHalf::run_questions(TimeNs now) {
  if (now < question_due_ns_) return question_due_ns_;
  question_due_ns_ = kTimeNever;
  bool asks = false;
  for (uint32_t i = 0; slots_ != nullptr && i < context_.terms.window; ++i) {
    Slot& slot = slots_[i];
    if (slot.question_ns <= now) {
      // A response that waits for the wire, or for a loan, was not even sent yet.
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
