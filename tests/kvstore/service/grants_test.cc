#include "kvstore/service/grants.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvstore/service/session_owners.h"

namespace skua::kv {
namespace {

TEST(Grants, EachMethodNeedsARightAndThoseOfNodesAreForNoClient) {
  const Rights rights_of_clients = kRightRead | kRightWrite | kRightScan;
  size_t of_clients = 0;
  for (uint32_t number = 0; number <= UINT16_MAX; ++number) {
    const auto method = static_cast<Method>(number);
    const Rights wanted = needed(method);
    EXPECT_NE(wanted, 0) << number;
    const bool is_clients = std::string(method_name(method)) != "?" && number < 32;
    EXPECT_EQ((wanted & ~rights_of_clients) == 0, is_clients) << number << " " << method_name(method);
    EXPECT_TRUE(!is_clients || wanted == kRightRead || wanted == kRightWrite || wanted == kRightScan) << number;
    of_clients += is_clients ? 1 : 0;
  }
  EXPECT_EQ(of_clients, 10u);
}

const std::vector<TableGrants> kTables = {
    {3, "notes", {{"client/a", kRightRead | kRightWrite}, {"client/b", kRightScan}}},
    {5, "ledger", {{"client/b", kRightRead}}},
    {7, "dropped", {}}};

TEST(Grants, SayWhoMayDoWhatWithWhichTable) {
  const Grants grants(kTables);
  const ClosedTable* const notes = grants.find(3);
  const ClosedTable* const ledger = grants.find(5);
  ASSERT_NE(notes, nullptr);
  ASSERT_NE(ledger, nullptr);
  EXPECT_EQ(notes->name, "notes");
  EXPECT_EQ(grants.find(4), nullptr);
  ASSERT_NE(grants.find(7), nullptr);
  EXPECT_FALSE(grants.find(7)->allows(grants.row_of("client/a"), kRightRead)) << "closed to all clients";
  const GrantRow a = grants.row_of("client/a");
  const GrantRow b = grants.row_of("client/b");
  EXPECT_TRUE(notes->allows(a, kRightRead) && notes->allows(a, kRightWrite) && !notes->allows(a, kRightScan));
  EXPECT_TRUE(notes->allows(b, kRightScan) && !notes->allows(b, kRightRead) && !notes->allows(b, kRightWrite));
  EXPECT_TRUE(ledger->allows(b, kRightRead));
  EXPECT_FALSE(ledger->allows(a, kRightRead));
  for (const char* who : {"", "client/c", "client/", "monitor/a", "adminx/a", "client/node/a", "a"}) {
    const GrantRow row = grants.row_of(who);
    EXPECT_FALSE(notes->allows(row, kRightRead) || notes->allows(row, kRightWrite) || notes->allows(row, kRightScan))
        << who;
  }
  for (const char* who : {"admin/ada", "node/n", "control/c"}) {
    EXPECT_TRUE(notes->allows(grants.row_of(who), kRightsUnlimited)) << who;
  }
}

class SessionRightsTest : public ::testing::Test {
 protected:
  SessionRightsTest() { owners_.set_grants(grants_); }
  bool may_read(rpc::SessionId session) { return owners_.may(session, *grants_->find(3), kRightRead); }

  std::shared_ptr<const Grants> grants_ = std::make_shared<const Grants>(kTables);
  SessionOwners owners_;
};

TEST_F(SessionRightsTest, AreThoseOfWhoOpenedIt) {
  owners_.add({1, 10}, "client/a");
  owners_.add({2, 20}, "client/b");
  owners_.add({9, 90}, "admin/ada");
  EXPECT_TRUE(may_read({1, 10}));
  EXPECT_FALSE(may_read({2, 20}));
  EXPECT_TRUE(may_read({9, 90}));
  EXPECT_FALSE(may_read({3, 30})) << "nobody is known to have opened it";
  EXPECT_FALSE(may_read({4'000'000, 1}));
  EXPECT_EQ(owners_.owner_of({1, 10}), "client/a");
  EXPECT_EQ(owners_.owner_of({1, 11}), "");
}

TEST_F(SessionRightsTest, AnIndexThatIsUsedAgainHasTheRightsOfTheNewOwner) {
  owners_.add({1, 10}, "client/a");
  owners_.add({1, 11}, "client/b");
  EXPECT_FALSE(may_read({1, 11}));
  owners_.add({1, 12}, "client/a");
  owners_.add({1, 12}, "");
  EXPECT_TRUE(may_read({1, 12})) << "the offer came again";
  owners_.add({1, 13}, "");
  EXPECT_FALSE(may_read({1, 13})) << "a session without a certificate";
}

TEST_F(SessionRightsTest, FollowTheGrants) {
  owners_.add({1, 10}, "client/a");
  owners_.add({2, 20}, "client/c");
  grants_ = std::make_shared<const Grants>(std::vector<TableGrants>{{3, "notes", {{"client/c", kRightRead}}}});
  owners_.set_grants(grants_);
  EXPECT_FALSE(may_read({1, 10}));
  EXPECT_TRUE(may_read({2, 20}));
}

}  // namespace
}  // namespace skua::kv
