// World with sealed packets: keys come with sessions, which are opened beside the packets, as over gRPC.
//
//   opener:   begin_connect() -- offer --> late, or lost --> accept_offer()      (a retried call delivers it twice)
//             finish_connect() <-- answer -- late, or lost <--
//
// Whoever loses an offer or an answer hears of the loss, as the caller of a gRPC does, and closes the session.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/transport/sealed/sealed_transport.h"
#include "tests/sim/rpc_world_internal.h"

namespace skua::rpc::sim {
namespace {

constexpr uint64_t kFramesPerKey = 4;
constexpr double kLateChance = 0.05;
constexpr double kTwiceChance = 0.1;

}  // namespace

/// Seals what goes over `wire`, if this world does.
std::shared_ptr<Transport> World::protect(std::shared_ptr<SimTransport> wire, Node& node) {
  node.sealed = nullptr;
  if (!options_.sealed) return wire;
  SealedOptions options;
  options.mode = mix64(options_.seed) % 2 == 0 ? SealMode::kEncrypt : SealMode::kAuthenticate;
  options.rotation.frames = kFramesPerKey;
  options.unused_after_ns = static_cast<DurationNs>(rng_.between(1, 30)) * kSecond;
  options.random = [rng = Rng(rng_.next())](MutableByteSpan bytes) mutable {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  };
  options.make_aead = nonces_.maker();
  auto transport = std::make_shared<SealedTransport>(std::move(wire), *node.clock, std::move(options));
  node.sealed = transport.get();
  return transport;
}

absl::StatusOr<SessionId> World::open_session(Node& from, uint32_t to) {
  const Descriptor peer = nodes_[to].up() ? nodes_[to].endpoint->local_descriptor() : Descriptor{};
  if (!options_.sealed) return from.endpoint->connect(peer);
  absl::StatusOr<Endpoint::Offer> offer = from.endpoint->begin_connect(peer);
  if (!offer.ok()) return offer.status();
  letters_.push_back({.due_ns = now() + letter_delay(),
                      .kind = Letter::Kind::kOffer,
                      .opener = from.index,
                      .incarnation = from.incarnation,
                      .to = to,
                      .to_incarnation = nodes_[to].incarnation,
                      .session = offer->session,
                      .bytes = std::move(offer->bytes)});
  return offer->session;
}

DurationNs World::letter_delay() {
  const DurationNs longest = rng_.chance(kLateChance) ? 300 * kMillisecond : 2 * kMillisecond;
  return static_cast<DurationNs>(rng_.between(20 * kMicrosecond, static_cast<uint64_t>(longest)));
}

void World::deliver_letters() {
  for (size_t i = 0; i < letters_.size();) {
    if (letters_[i].due_ns > now()) {
      ++i;
      continue;
    }
    Letter letter = std::move(letters_[i]);
    letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(i));
    if (letter.kind == Letter::Kind::kOffer) {
      deliver_offer(std::move(letter));
    } else {
      deliver_answer(letter);
    }
  }
}

void World::deliver_offer(Letter letter) {
  Node& to = nodes_[letter.to];
  // Whoever offers says which process is meant.
  const bool is_there = to.up() && to.incarnation == letter.to_incarnation && !(faulty_ && rng_.chance(letter_loss_));
  if (is_there) {
    const OfferOrigin origin{
        .source = letter.opener + 1, .principal = absl::StrCat("node ", letter.opener), .is_node = true};
    std::string answer = to.endpoint->accept_offer(as_byte_span(letter.bytes), origin);
    if (faulty_ && rng_.chance(kTwiceChance)) answer = to.endpoint->accept_offer(as_byte_span(letter.bytes), origin);
    letter.bytes = std::move(answer);
  }
  const bool has_answer = is_there && !(faulty_ && rng_.chance(letter_loss_));
  letter.kind = has_answer ? Letter::Kind::kAnswer : Letter::Kind::kLoss;
  letter.due_ns = now() + letter_delay();
  letters_.push_back(std::move(letter));
}

void World::deliver_answer(const Letter& letter) {
  Node& opener = nodes_[letter.opener];
  if (!opener.up() || opener.incarnation != letter.incarnation) return;
  absl::Status status = absl::UnavailableError("lost");
  if (letter.kind == Letter::Kind::kAnswer) {
    status = opener.endpoint->finish_connect(letter.session, as_byte_span(letter.bytes));
    if (absl::IsInvalidArgument(status)) violate("an answer is not understood: ", std::string(status.message()));
  }
  ++result_.coverage[absl::StrCat("opened by keys ", absl::StatusCodeToString(status.code()))];
  if (status.ok()) return;
  for (auto it = opener.sessions.begin(); it != opener.sessions.end(); ++it) {
    if (it->second != letter.session) continue;
    opener.sessions.erase(it);
    break;
  }
  opener.endpoint->close(letter.session);
}

/// Nothing goes in the clear.
void World::watch_sealed(ByteSpan packet) {
  SealedHead head;
  if (is_damaging_ || SealedHead::read(packet.data(), head)) return;
  violate("a packet of ", packet.size(), " bytes that is no sealed frame");
}

void World::cover_seals(const Node& node) {
  if (node.sealed == nullptr) return;
  const SealedCounters& seals = node.sealed->sealed_counters();
  const std::pair<const char*, uint64_t> counts[] = {{"frame sealed", seals.sealed},
                                                     {"frame opened", seals.opened},
                                                     {"frame replayed", seals.replayed},
                                                     {"frame of an unknown channel", seals.unknown_channel},
                                                     {"frame of another generation", seals.wrong_generation},
                                                     {"frame forged", seals.forged},
                                                     {"frame missing", seals.missing},
                                                     {"channel made", seals.channels_made}};
  for (const auto& [what, count] : counts) {
    if (count > 0) result_.coverage[what] += count;
  }
}

}  // namespace skua::rpc::sim
