#include "rpc/transport/verbs/rc_join.h"

namespace skua::rpc::verbs {
namespace {

constexpr uint8_t kVersion = 1;
/// Queue pairs 0 and 1 belong to the subnet manager; the number of all ones is for multicast.
constexpr uint32_t kQpNumberMin = 2;
constexpr uint32_t kQpNumberMax = 0xfffffe;
constexpr uint32_t kPsnMax = 0xffffff;
constexpr uint8_t kStateMax = 3;

}  // namespace

ConnectMessage JoinMessage::joining() const {
  ConnectMessage out;
  out.state = state;
  out.generation = generation;
  out.echo = echo;
  return out;
}

std::array<std::byte, JoinMessage::kBytes> JoinMessage::encode() const {
  std::array<std::byte, kBytes> out;
  const ConnectMessage none{ConnectMessage::State{}, 0, 0, 0, 0, 0};
  const ConnectMessage& about = pair.has_value() ? *pair : none;
  ByteWriter writer(out);
  writer.write(kMagic);
  writer.write(kVersion);
  writer.write(static_cast<uint8_t>(state));
  writer.write(static_cast<uint8_t>(about.state));
  writer.write(about.reads_served);
  writer.write(about.qp_number);
  writer.write(about.psn);
  writer.write(uint32_t{0});
  writer.write(process);
  writer.write(generation);
  writer.write(echo);
  writer.write(about.generation);
  writer.write(about.echo);
  return out;
}

std::optional<JoinMessage> JoinMessage::decode(ByteSpan datagram) {
  ByteReader reader(datagram);
  const auto magic = reader.read<uint64_t>();
  const auto version = reader.read<uint8_t>();
  const auto state = reader.read<uint8_t>();
  const auto pair_state = reader.read<uint8_t>();
  JoinMessage out;
  ConnectMessage about;
  out.state = static_cast<ConnectMessage::State>(state);
  about.state = static_cast<ConnectMessage::State>(pair_state);
  about.reads_served = reader.read<uint8_t>();
  about.qp_number = reader.read<uint32_t>();
  about.psn = reader.read<uint32_t>();
  const auto zero = reader.read<uint32_t>();
  out.process = reader.read<uint64_t>();
  out.generation = reader.read<uint64_t>();
  out.echo = reader.read<uint64_t>();
  about.generation = reader.read<uint64_t>();
  about.echo = reader.read<uint64_t>();
  if (!reader.complete() || magic != kMagic || version != kVersion || state < 1 || state > kStateMax || zero != 0 ||
      out.process == 0 || out.generation == 0) {
    return std::nullopt;
  }
  if (pair_state == 0) {
    const bool silent =
        about.reads_served == 0 && about.qp_number == 0 && about.psn == 0 && about.generation == 0 && about.echo == 0;
    return silent ? std::optional(out) : std::nullopt;
  }
  if (pair_state > kStateMax || about.reads_served == 0 || about.qp_number < kQpNumberMin ||
      about.qp_number > kQpNumberMax || about.psn > kPsnMax || about.generation == 0) {
    return std::nullopt;
  }
  out.pair = about;
  return out;
}

}  // namespace skua::rpc::verbs
