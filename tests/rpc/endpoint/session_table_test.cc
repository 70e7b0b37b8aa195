#include "rpc/session_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/wire/bundle.h"
#include "tests/rpc/endpoint/idle_session_host.h"

namespace skua::rpc {
namespace {

class SessionTableTest : public ::testing::Test {
 protected:
  SessionEntry* dial(PeerId at) {
    const absl::StatusOr<SessionEntry*> entry = table.add_dialled(at, 5);
    if (!entry.ok()) return nullptr;
    attach(**entry);
    (*entry)->state = SessionEntry::State::kConnecting;
    return *entry;
  }
  SessionEntry* accept(const AcceptedOffer& offer) {
    const absl::StatusOr<SessionEntry*> entry = table.add_accepted(offer, 5);
    if (!entry.ok()) return nullptr;
    attach(**entry);
    (*entry)->state = SessionEntry::State::kOpen;
    return *entry;
  }
  void attach(SessionEntry& entry) {
    SessionTable::attach(entry, std::make_unique<Session>(host, options.protocol, entry.index, nullptr, kNoPeer));
  }
  void bury() {
    table.bury([](SessionEntry& entry) { EXPECT_NE(entry.session, nullptr); });
  }
  static AcceptedOffer offer_of(uint64_t nonce, uint64_t source = 0) {
    AcceptedOffer out;
    out.nonce = nonce;
    out.remote_index = static_cast<uint32_t>(nonce);
    out.offer_source = source;
    return out;
  }

  testing::IdleSessionHost host;
  EndpointOptions options;
  Rng rng{3};
  SessionTable table{options, [this] { return rng.next(); }};
};

TEST_F(SessionTableTest, NamesAreOfOneLife) {
  SessionEntry* entry = dial(1);
  ASSERT_NE(entry, nullptr);
  const SessionId handle = entry->handle();
  const uint32_t generation = entry->wire_generation;
  const uint64_t nonce = entry->nonce;
  EXPECT_EQ(entry->session->hot().handle, session_handle(entry->index, entry->life));
  EXPECT_EQ(entry->session->hot().handle_generation, handle.generation);

  table.renew(*entry);
  EXPECT_EQ(table.find(handle), entry) << "to the application it is the same session";
  EXPECT_GT(static_cast<int32_t>(entry->wire_generation - generation), 0);
  EXPECT_NE(entry->nonce, nonce);
  EXPECT_EQ(entry->session->hot().handle, session_handle(entry->index, entry->life));

  table.end(*entry);
  EXPECT_EQ(table.find(handle), nullptr);
  EXPECT_NE(entry->session, nullptr) << "it may be running";
  EXPECT_TRUE(table.has_doomed());
  const uint32_t last = entry->wire_generation;
  bury();
  EXPECT_FALSE(table.has_doomed());
  EXPECT_EQ(dial(2), entry) << "its place is used again";
  EXPECT_EQ(table.find(handle), nullptr);
  EXPECT_GT(static_cast<int32_t>(entry->wire_generation - last), 0);
}

TEST_F(SessionTableTest, APlaceRemembersNothingOfTheSessionBefore) {
  SessionEntry* entry = accept(offer_of(7));
  ASSERT_NE(entry, nullptr);
  table.bind(*entry, 1, 1);
  entry->answer = "yes";
  entry->link_lost = entry->was_open = entry->offer_due = true;
  entry->attempts = entry->joins_unanswered = 3;
  table.end(*entry);
  bury();
  ASSERT_EQ(accept(offer_of(8)), entry);
  EXPECT_EQ(entry->peer, kUnbound);
  EXPECT_FALSE(entry->proven || entry->link_lost || entry->was_open || entry->offer_due || entry->initiator);
  EXPECT_TRUE(entry->answer.empty());
  EXPECT_EQ(entry->attempts + entry->joins_unanswered, 0u);
}

TEST_F(SessionTableTest, TheLastPlacesAreKept) {
  options.sessions_max = 3;
  options.sessions_reserved = 2;
  ASSERT_NE(accept(offer_of(1)), nullptr);
  EXPECT_TRUE(table.is_short());
  EXPECT_EQ(accept(offer_of(2)), nullptr);
  AcceptedOffer of_node = offer_of(3);
  of_node.may_have_reserved = true;
  ASSERT_NE(accept(of_node), nullptr);
  SessionEntry* own = dial(1);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(dial(1), nullptr);
  EXPECT_EQ(table.add_dialled(1, 0).status().code(), absl::StatusCode::kResourceExhausted);
  table.end(*own);
  EXPECT_NE(dial(1), nullptr) << "the doomed do not count";
}

TEST_F(SessionTableTest, PeersAndHostsHaveTheirParts) {
  options.sessions_per_peer_max = 2;
  options.sessions_per_host_max = 3;
  std::vector<SessionEntry*> entries;
  for (uint64_t i = 0; i < 3; ++i) {
    entries.push_back(accept(offer_of(i)));
    table.bind(*entries.back(), i < 2 ? 1 : 2, 77);
  }
  EXPECT_EQ(table.room_for(1, 77).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.room_for(2, 77).code(), absl::StatusCode::kResourceExhausted) << "three of its host";
  EXPECT_TRUE(table.room_for(2, 78).ok());
  table.unbind(*entries[0]);
  EXPECT_EQ(entries[0]->session->route(), kNoPeer);
  EXPECT_TRUE(table.room_for(1, 77).ok());
  table.end(*entries[0]);
  EXPECT_TRUE(table.room_for(1, 77).ok()) << "it was not counted, and is not counted down again";
  EXPECT_EQ(table.find_bound(1, 1), entries[1]);
}

TEST_F(SessionTableTest, OfUnusedSessionsTheFloodersOldestGoes) {
  options.sessions_unproven_max = 4;
  SessionEntry* quiet = accept(offer_of(1, 100));
  SessionEntry* used = accept(offer_of(2, 200));
  table.bind(*used, 1, 1);
  SessionEntry* flood = accept(offer_of(3, 200));
  ASSERT_NE(accept(offer_of(4, 200)), nullptr);
  EXPECT_EQ(table.excess_unproven(), nullptr) << "three are unproven";
  ASSERT_NE(accept(offer_of(5, 100)), nullptr);
  ASSERT_NE(accept(offer_of(6, 200)), nullptr);
  EXPECT_EQ(table.excess_unproven(), flood);
  table.end(*flood);
  EXPECT_EQ(table.excess_unproven(), quiet) << "two of each source: the oldest of all";
  table.end(*quiet);
  EXPECT_EQ(table.excess_unproven(), nullptr);
  table.unbind(*used);
  EXPECT_EQ(table.excess_unproven(), nullptr) << "once used is not unused";
}

TEST_F(SessionTableTest, NoUnusedSessionsAtAllIsALimitAsWell) {
  options.sessions_unproven_max = 0;
  EXPECT_EQ(table.excess_unproven(), nullptr);
  SessionEntry* entry = accept(offer_of(1));
  EXPECT_EQ(table.excess_unproven(), entry);
}

TEST_F(SessionTableTest, WhoeverVisitsMayEndAndAddSessions) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_NE(accept(offer_of(i)), nullptr);
  size_t visited = 0;
  table.for_each([&](SessionEntry& entry) {
    if (++visited < 4) {
      EXPECT_NE(dial(9), nullptr);
    }
    table.end(entry);
  });
  EXPECT_EQ(visited, 6u);
  EXPECT_EQ(table.size(), 0u);
  bury();
  EXPECT_FALSE(table.is_used(9));
  table.for_each([](SessionEntry& /*entry*/) { FAIL() << "all are free"; });
}

// --- The dumb twin: a list of sessions, looked through for every answer ---------------------------------------------

class Twin {
 public:
  struct Known {
    SessionEntry* entry = nullptr;
    SessionId handle;
    bool initiator = false;
    uint64_t nonce = 0;
    Uuid sender;
    uint64_t source = 0;
    PeerId claimed = kNoPeer;
    uint32_t remote_index = 0;
    uint32_t remote_generation = 0;
    PeerId peer = kUnbound;
    uint64_t host = 0;
    bool proven = false;
    bool ended = false;
  };
  std::vector<Known> all;

  template <typename Is>
  [[nodiscard]] size_t count(Is is) const {
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [&](const Known& k) { return !k.ended && is(k); }));
  }
  template <typename Is>
  [[nodiscard]] SessionEntry* find(Is is) const {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Known& k) { return !k.ended && is(k); });
    return found == all.end() ? nullptr : found->entry;
  }
  [[nodiscard]] SessionEntry* excess(size_t max) const {
    std::map<uint64_t, size_t> by_source;
    size_t most = 0;
    size_t unproven = 0;
    for (const Known& k : all) {
      if (k.ended || k.initiator || k.proven) continue;
      ++unproven;
      most = std::max(most, ++by_source[k.source]);
    }
    if (unproven == 0 || unproven < max) return nullptr;
    return find([&](const Known& k) { return !k.initiator && !k.proven && by_source[k.source] == most; });
  }
};

constexpr PeerId kPeers = 5;
constexpr uint32_t kIndices = 6;

uint64_t host_of(PeerId at) {
  return at / 2;
}

TEST_F(SessionTableTest, AgreesWithItsTwin) {
  options.sessions_max = 24;
  options.sessions_reserved = 4;
  options.sessions_per_peer_max = 4;
  options.sessions_per_host_max = 6;
  options.sessions_unproven_max = 5;
  Twin twin;
  uint64_t next_nonce = 1;
  std::set<std::pair<uint32_t, uint32_t>> handles;
  const auto room = [&](PeerId at) {
    return twin.count([&](const Twin::Known& k) { return !k.initiator && k.peer == at; }) <
               options.sessions_per_peer_max &&
           twin.count([&](const Twin::Known& k) {
             return !k.initiator && k.peer != kUnbound && k.host == host_of(at);
           }) < options.sessions_per_host_max;
  };
  const auto living = [&](auto is) -> Twin::Known* {
    std::vector<Twin::Known*> out;
    for (Twin::Known& k : twin.all) {
      if (!k.ended && is(k)) out.push_back(&k);
    }
    return out.empty() ? nullptr : out[rng.below(out.size())];
  };
  const auto add = [&](SessionEntry& entry) -> Twin::Known& {
    Twin::Known& known = twin.all.emplace_back();
    known.entry = &entry;
    known.handle = entry.handle();
    EXPECT_TRUE(handles.insert({known.handle.index, known.handle.generation}).second) << "a handle came twice";
    return known;
  };
  for (int step = 0; step < 20000; ++step) {
    const auto at = static_cast<PeerId>(rng.below(kPeers));
    const size_t alive = twin.count([](const Twin::Known&) { return true; });
    switch (rng.below(8)) {
      case 0: {
        SessionEntry* entry = dial(at);
        ASSERT_EQ(entry != nullptr, alive < options.sessions_max);
        if (entry == nullptr) break;
        Twin::Known& known = add(*entry);
        known.initiator = true;
        known.peer = at;
        break;
      }
      case 1:
      case 2: {
        AcceptedOffer offer;
        offer.nonce = next_nonce++;
        offer.identity.uuid.bytes[0] = static_cast<uint8_t>(at);
        offer.remote_index = static_cast<uint32_t>(rng.below(kIndices));
        offer.remote_generation = static_cast<uint32_t>(rng.below(3));
        offer.offer_source = rng.below(3);
        offer.claimed = rng.below(3) == 0 ? kNoPeer : at;
        offer.may_have_reserved = rng.below(2) == 0;
        const size_t limit = options.sessions_max - (offer.may_have_reserved ? 0 : options.sessions_reserved);
        SessionEntry* entry = accept(offer);
        ASSERT_EQ(entry != nullptr, alive < limit);
        if (entry == nullptr) break;
        Twin::Known& known = add(*entry);
        known.nonce = offer.nonce;
        known.sender = offer.identity.uuid;
        known.source = offer.offer_source;
        known.claimed = offer.claimed;
        known.remote_index = offer.remote_index;
        known.remote_generation = offer.remote_generation;
        break;
      }
      case 3:
      case 4: {
        Twin::Known* known = living([](const Twin::Known& k) { return !k.initiator && k.peer == kUnbound; });
        if (known == nullptr) break;
        // As the endpoint does: whoever has that index there goes first.
        if (SessionEntry* old = table.find_bound(at, known->remote_index); old != nullptr) {
          table.end(*old);
          std::find_if(twin.all.begin(), twin.all.end(), [&](const Twin::Known& k) {
            return !k.ended && k.entry == old;
          })->ended = true;
        }
        ASSERT_EQ(table.room_for(at, host_of(at)).ok(), room(at));
        if (!room(at)) break;
        table.bind(*known->entry, at, host_of(at));
        known->peer = at;
        known->host = host_of(at);
        known->proven = true;
        break;
      }
      case 5:
        if (Twin::Known* known = living([](const Twin::Known& k) { return !k.initiator && k.peer != kUnbound; })) {
          table.unbind(*known->entry);
          known->peer = kUnbound;
        }
        break;
      case 6:
        if (Twin::Known* known = living([](const Twin::Known&) { return true; })) {
          table.end(*known->entry);
          known->ended = true;
        }
        break;
      default:
        bury();
        std::erase_if(twin.all, [](const Twin::Known& k) { return k.ended; });
        break;
    }
    ASSERT_EQ(table.size(), twin.count([](const Twin::Known&) { return true; }));
    for (PeerId p = 0; p < kPeers; ++p) {
      ASSERT_EQ(table.is_used(p), twin.count([&](const Twin::Known& k) { return k.peer == p; }) > 0);
      ASSERT_EQ(table.is_awaited(p), twin.count([&](const Twin::Known& k) {
        return !k.initiator && k.claimed == p && k.peer == kUnbound;
      }) > 0);
      ASSERT_EQ(table.room_for(p, host_of(p)).ok(), room(p));
      for (uint32_t i = 0; i < kIndices; ++i) {
        ASSERT_EQ(table.find_bound(p, i),
                  twin.find([&](const Twin::Known& k) { return !k.initiator && k.peer == p && k.remote_index == i; }));
      }
    }
    ASSERT_EQ(table.excess_unproven(), twin.excess(options.sessions_unproven_max));
    for (const Twin::Known& k : twin.all) {
      ASSERT_EQ(table.find(k.handle), k.ended ? nullptr : k.entry);
      if (k.initiator) continue;
      ASSERT_EQ(table.find_accepted(k.nonce, k.sender), k.ended ? nullptr : k.entry);
      if (!k.ended && k.peer != kUnbound) {
        ASSERT_EQ(table.find_open(k.peer, k.remote_index, k.remote_generation), k.entry);
      }
    }
  }
}

}  // namespace
}  // namespace skua::rpc
