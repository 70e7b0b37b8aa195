#include "rpc/transport/verbs/rc_handshake.h"

#include <algorithm>

#include "rpc/base/rng.h"

namespace skua::rpc::verbs {
namespace {

constexpr uint8_t kVersion = 1;
/// Queue pairs 0 and 1 belong to the subnet manager; the number of all ones is for multicast.
constexpr uint32_t kQpNumberMin = 2;
constexpr uint32_t kQpNumberMax = 0xfffffe;
constexpr uint32_t kPsnMax = 0xffffff;

/// Symmetric in both arguments, so both ends get the same number. Two pairs get equal numbers only as likely as two
/// random numbers are equal.
uint64_t number_of(uint64_t one, uint64_t other) {
  return std::max<uint64_t>(mix64(mix64(std::min(one, other)) ^ std::max(one, other)), 1);
}

}  // namespace

std::array<std::byte, ConnectMessage::kBytes> ConnectMessage::encode() const {
  std::array<std::byte, kBytes> out;
  ByteWriter writer(out);
  writer.write(kMagic);
  writer.write(kVersion);
  writer.write(static_cast<uint8_t>(state));
  writer.write(reads_served);
  writer.write(uint8_t{0});
  writer.write(qp_number);
  writer.write(psn);
  writer.write(uint32_t{0});
  writer.write(generation);
  writer.write(echo);
  return out;
}

std::optional<ConnectMessage> ConnectMessage::decode(ByteSpan datagram) {
  ByteReader reader(datagram);
  const auto magic = reader.read<uint64_t>();
  const auto version = reader.read<uint8_t>();
  const auto state = reader.read<uint8_t>();
  ConnectMessage out;
  out.state = static_cast<State>(state);
  out.reads_served = reader.read<uint8_t>();
  const auto zero = reader.read<uint8_t>();
  out.qp_number = reader.read<uint32_t>();
  out.psn = reader.read<uint32_t>();
  const auto also_zero = reader.read<uint32_t>();
  out.generation = reader.read<uint64_t>();
  out.echo = reader.read<uint64_t>();
  if (!reader.complete() || magic != kMagic || version != kVersion || state < 1 || state > 3 || out.reads_served == 0 ||
      zero != 0 || also_zero != 0 || out.qp_number < kQpNumberMin || out.qp_number > kQpNumberMax ||
      out.psn > kPsnMax || out.generation == 0) {
    return std::nullopt;
  }
  return out;
}

void RcHandshake::begin(TimeNs now) {
  newest_ = generation_ = std::max(newest_ + 1, static_cast<uint64_t>(now));
  bound_to_ = 0;
  ready_ = false;
  tries_ = 0;
  begun_ns_ = next_send_ns_ = now;
  next_answer_ns_ = 0;
}

void RcHandshake::end() {
  generation_ = bound_to_ = 0;
  ready_ = false;
}

RcHandshake::Action RcHandshake::on_message(const ConnectMessage& message, TimeNs now) {
  Action action;
  if (message.generation < peers_newest_) return action;
  if (message.state == ConnectMessage::State::kClosed) {
    if (bound_to_ != message.generation) return action;
    end();
    action.close = true;
    return action;
  }
  if (!running() || (bound_to_ != 0 && bound_to_ != message.generation)) {
    if (newest_ != 0 && now - begun_ns_ < kRenewEvery) return action;
    begin(now);
    action.renew = true;
  }
  peers_newest_ = message.generation;
  bool news = action.renew;
  if (bound_to_ == 0 && (message.echo == 0 || message.echo == generation_)) {
    bound_to_ = message.generation;
    action.bind = news = true;
  }
  const bool heard = message.echo == generation_ && bound_to_ == message.generation;
  if (heard && !ready_) {
    ready_ = news = true;
    connection_ = number_of(generation_, bound_to_);
  }
  const bool settled = heard && message.state == ConnectMessage::State::kReady;
  action.answer = !settled && (news || now >= next_answer_ns_);
  if (action.answer) next_answer_ns_ = now + kAnswerEvery;
  return action;
}

bool RcHandshake::due(TimeNs now) {
  if (now < next_due_ns()) return false;
  if (tries_ == kTries) {
    end();
    return false;
  }
  next_send_ns_ = now + std::min(kRepeatFirst << tries_, kRepeatMax);
  ++tries_;
  return true;
}

ConnectMessage RcHandshake::message() const {
  ConnectMessage out;
  out.state = ready_ ? ConnectMessage::State::kReady : ConnectMessage::State::kOpen;
  out.generation = generation_;
  out.echo = bound_to_;
  return out;
}

}  // namespace skua::rpc::verbs
