// The peer node: what it answers to the worker, and what it asks for.
#include <string_view>
#include <utility>

#include "kvstore/codec/methods.h"
#include "rpc/base/bytes.h"
#include "tests/fuzz/node_world.h"

namespace skua::kv::fuzz {

void NodeWorld::start_peer() {
  for (const Method method : {Method::kReplicate, Method::kFetchChunk, Method::kFetchTail}) {
    peer_->serve(static_cast<rpc::MethodId>(method), [this](rpc::IncomingCall&& call) {
      if (!answers.empty()) {
        call.reply.reply(rpc::MessagePtr::copy_of(as_byte_span(answers.front())));
        answers.pop_front();
      } else if (holds) {
        held_.push_back(std::move(call.reply));
      } else {
        call.reply.reply(peer_->make_message());
      }
    });
  }
  serve_vouch();
}

void NodeWorld::serve_vouch() {
  peer_->serve(static_cast<rpc::MethodId>(Method::kVouch), [this](rpc::IncomingCall&& call) {
    const ByteSpan question = call.request.bytes();
    if (question.size() != sizeof(uint64_t)) fail("a question for a session is none");
    const auto number = load_le<uint64_t>(question.data());
    if (vouching == Vouching::kSilence) {
      held_questions_.emplace_back(number, std::move(call.reply));
    } else {
      answer_vouch(number, std::move(call.reply));
    }
  });
}

void NodeWorld::answer_vouch(uint64_t number, rpc::ReplyToken reply) {
  const bool yes = vouching != Vouching::kNo && peer_nonces_.contains(number);
  reply.reply(rpc::MessagePtr::copy_of(as_byte_span(std::string_view(yes ? "\1" : "\0", 1))));
}

// --- Its own session

void NodeWorld::call(Method method, std::string_view request, bool one_way, DurationNs timeout_ns,
                     rpc::CompletionFn done) {
  if (!peer_session_ || !peer_->is_connected(*peer_session_)) {
    close_peer_session();
    peer_wires_.emplace_back();
    peer_session_ = connect(*peer_, peer_wires_.back());
    if (const uint64_t nonce = peer_->session_nonce(*peer_session_); nonce != 0) peer_nonces_.insert(nonce);
  }
  stir(kPeer);
  count_peer_request(method);
  // Refused: too many are under way, or there is no session.
  static_cast<void>(peer_->call(*peer_session_, static_cast<rpc::MethodId>(method),
                                rpc::MessagePtr::copy_of(as_byte_span(request)),
                                {.timeout_ns = timeout_ns, .one_way = one_way}, std::move(done)));
}

void NodeWorld::count_peer_request(Method method) {
  if (method == Method::kReplicate) ++peer_messages_;
  if (method == Method::kFetchChunk) ++peer_fetches_;
}

void NodeWorld::release_held() {
  held_.clear();
  for (auto& [number, reply] : std::exchange(held_questions_, {})) answer_vouch(number, std::move(reply));
  stir(kPeer);
}

void NodeWorld::close_peer_session() {
  if (peer_session_) peer_->close(*peer_session_);
  stir(kPeer);
  peer_session_.reset();
}

}  // namespace skua::kv::fuzz
