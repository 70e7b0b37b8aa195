// The example over the simulated network, with operations on memory and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "examples/remote_memory/tally_keeper.h"
#include "examples/remote_memory/tally_table.h"
#include "examples/remote_memory/tally_user.h"
#include "rpc/transport/sim/sim_network.h"

namespace skua::examples {
namespace {

using rpc::SimTransport;

TEST(TallyTable, NamesAreChecked) {
  const std::vector<std::string> good = {"tea", std::string(kNameMax, 'n')};
  EXPECT_TRUE(check_names(good).ok());
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{}, {""}, {std::string(kNameMax + 1, 'n')}, {"tea", "coffee", "tea"}}) {
    EXPECT_EQ(check_names(bad).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TallyTable, WhatIsWrittenIsRead) {
  const std::vector<std::string> names = {"tea", std::string(kNameMax, 'n')};
  std::vector<std::byte> table(2 * kRowBytes + 1);
  write_table(names, table);
  store_le(table.data() + kRowBytes, uint64_t{77});
  const std::vector<TallyRow> rows = read_table(table);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "tea");
  EXPECT_EQ(rows[0].count, 0u);
  EXPECT_EQ(rows[1].name, names[1]);
  EXPECT_EQ(rows[1].count, 77u);
}

class Tally : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::vector<std::string> names = {"tea", "coffee"};
    keepers_wire_ = attach(1);
    keeper_ = TallyKeeper::create(*keepers_wire_, network_.clock(), names).value();
  }
  std::unique_ptr<SimTransport> attach(uint32_t address) {
    rpc::EndpointIdentity identity;
    identity.uuid.bytes = {0x7a, static_cast<uint8_t>(address)};
    identity.incarnation = 1;
    return network_.attach(address, identity, {.one_sided = GetParam()});
  }
  std::unique_ptr<TallyUser> make_user(SimTransport& wire) {
    return std::make_unique<TallyUser>(wire, network_.clock(), [this](rpc::Endpoint& endpoint) {
      endpoint.poll();
      keeper_->endpoint().poll();
      const TimeNs timer = std::min(endpoint.next_timer_ns(), keeper_->endpoint().next_timer_ns());
      const TimeNs next = std::min(network_.next_event_ns(), timer);
      network_.advance_to(std::clamp(next, network_.now_ns(), network_.now_ns() + kMillisecond));
    });
  }

  rpc::SimNetwork network_{3};
  std::unique_ptr<SimTransport> keepers_wire_;
  std::unique_ptr<TallyKeeper> keeper_;
};

TEST_P(Tally, AllThatIsAddedIsThere) {
  const auto wire_a = attach(2);
  const auto wire_b = attach(3);
  const auto a = make_user(*wire_a);
  const auto b = make_user(*wire_b);
  ASSERT_TRUE(a->open(keeper_->descriptor()).ok());
  ASSERT_TRUE(b->open(keeper_->descriptor()).ok());
  for (int turn = 1; turn <= 3; ++turn) {
    for (TallyUser* user : {a.get(), b.get()}) {
      const auto added = user->add("coffee", 100);
      ASSERT_TRUE(added.ok()) << added.status();
      EXPECT_TRUE(added->failure.ok()) << added->failure;
      EXPECT_EQ(added->done, 100u);
    }
  }
  const auto rows = a->read();
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].count, 0u);
  EXPECT_EQ((*rows)[1].count, 600u);
  EXPECT_EQ(keeper_->table()[1].count, 600u);
  EXPECT_EQ(a->counters().direct > 0, GetParam());
  EXPECT_EQ(a->add("milk", 1).status().code(), absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Wires, Tally, testing::Bool(),
                         [](const auto& info) { return info.param ? "OneSided" : "Calls"; });

}  // namespace
}  // namespace skua::examples
