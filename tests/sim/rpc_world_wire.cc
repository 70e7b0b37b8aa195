// What World sees on the wire: that bundles say what they may, and what became of each call. It also cuts bundles, as a
// peer would that is wrong.
#include "rpc/wire/packet_header.h"
#include "tests/sim/rpc_world_internal.h"

namespace skua::rpc::sim {
namespace {

constexpr uint32_t kFirstAddress = 100;
/// Stamps and echoes are cut to whole ticks here and there.
constexpr Ticks kRounding = 3;
/// Longer than anything is held up on its way.
constexpr DurationNs kEchoMax = 100 * kSecond;

}  // namespace

void World::watch(uint32_t from_address, uint32_t to_address, std::vector<std::byte>& packet) {
  if (options_.sealed) return watch_sealed(packet);
  Node& from = nodes_[from_address - kFirstAddress];
  Node& to = nodes_[to_address - kFirstAddress];
  if (is_bundle(packet.data())) return watch_bundle(from, to, packet);
  watch_packet(packet);
}

/// The call that a request is of; null: it is no whole request of ours.
CallRecord* World::call_of(ByteSpan request) {
  if (request.size() < sizeof(RequestHead)) return nullptr;
  const auto id = load_le<uint64_t>(request.data());
  return id < calls_.size() ? &calls_[id] : nullptr;
}

void World::watch_packet(ByteSpan packet) {
  PacketHeader header;
  if (!decode_header(packet, header)) return;
  const ByteSpan payload = packet.subspan(kHeaderBytes);
  const bool is_first =
      header.type == PacketType::kRequest && header.packet_index == 0 && (header.flags & packet_flags::kByRead) == 0;
  if (!is_first || !verify_checksum(packet.first(kHeaderBytes), payload)) return;
  CallRecord* call = call_of(payload);
  if (call == nullptr || std::exchange(call->in_packet, true)) return;
  if (call->in_bundle && !call->completed) ++result_.coverage["small call repeated in a packet"];
  if (!call->in_bundle && call->before_join) ++result_.coverage["call before its session joined"];
  const bool between_versions = nodes_[call->from].bundles != nodes_[call->to].bundles;
  if (between_versions && nodes_[call->from].bundles) ++result_.coverage["call of a new node to an old one"];
  if (between_versions && nodes_[call->to].bundles) ++result_.coverage["call of an old node to a new one"];
}

void World::watch_bundle(Node& from, Node& to, std::vector<std::byte>& packet) {
  BundleHead head;
  DropReason why;
  if (!open_bundle(packet, false, head, why)) return;
  check_echo(to, head);
  RecordReader reader(packet, head.records);
  RecordHead record;
  ByteSpan bytes;
  uint32_t calls = 0;
  while (reader.next(record, bytes)) {
    switch (record.kind) {
      case RecordKind::kRequest: watch_request(from, to, bytes); break;
      case RecordKind::kResponse: ++result_.coverage["answer in a bundle"]; break;
      case RecordKind::kMissing: ++result_.coverage["missing bundle told"]; break;
      case RecordKind::kJoin: ++result_.coverage["join"]; break;
      case RecordKind::kJoined:
        ++result_.coverage["joined"];
        to.joined.insert(index_of_handle(record.session));
        break;
    }
    calls += record.kind <= RecordKind::kResponse ? 1 : 0;
  }
  if (reader.is_malformed()) violate("a bundle whose records do not end where the bundle does");
  if (calls > 1) ++result_.coverage["bundle of several records"];
  if (calls >= 8) ++result_.coverage["bundle of eight records"];
  if (faulty_ && rng_.chance(cut_chance_)) cut(packet, head);
}

void World::watch_request(const Node& from, const Node& to, ByteSpan request) {
  CallRecord* call = call_of(request);
  if (call == nullptr) return violate("a small request without its head");
  if (!call->in_bundle) ++result_.coverage["small call"];
  call->in_bundle = true;
  const bool is_known = (from.bundles || from.incarnation > 1) && (to.bundles || to.incarnation > 1);
  if (!is_known) violate("a bundle between nodes of which one does not know bundles");
}

/// The echo is the receiver's own time, as old as the way there and back is long.
void World::check_echo(const Node& to, const BundleHead& head) {
  if ((head.flags & bundle_flags::kNoEcho) != 0) return;
  const Ticks delay = to_ticks(to.clock->now_ns()) - head.echo;
  const Ticks shortest = to_ticks(2 * SimTransportOptions().latency_ns) - kRounding;
  if (delay < shortest || delay > to_ticks(kEchoMax)) {
    violate("a bundle to node ", to.index, " echoes a time stamp that is none of its own: ", delay, " ticks");
  }
}

/// Its end is gone, and its checksum says that it is whole.
void World::cut(std::vector<std::byte>& bundle, const BundleHead& head) {
  if (bundle.size() <= kPacketHeaderBytes) return;
  ++result_.coverage["bundle cut"];
  bundle.resize(kPacketHeaderBytes + rng_.below(bundle.size() - kPacketHeaderBytes));
  seal_bundle(head, false, bundle);
}

}  // namespace skua::rpc::sim
