#include "control/core/strangers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

RegisterNode foreign(uint64_t n, uint64_t cluster = 77) {
  return {test_uuid(cluster), test_node(n), 0};
}

TEST(Strangers, ThatAskAnEmptyClusterAreShownForAMinute) {
  TestCluster cluster;
  EXPECT_THAT(cluster.core.stranger_troubles(), IsEmpty());
  EXPECT_FALSE(cluster.step(foreign(1)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(),
              ElementsAre(AllOf(HasSubstr("a node of another cluster (uuid " + test_uuid(77) + ") at host-1:7500 asks"),
                                HasSubstr("was this control plane started on another --data-dir"))));
  cluster.advance(kStrangersKeptNs);
  EXPECT_THAT(cluster.core.stranger_troubles(), SizeIs(1));
  cluster.advance(kSecond);
  EXPECT_THAT(cluster.core.stranger_troubles(), IsEmpty());
}

TEST(Strangers, ThatAskAClusterWithNodesAreSentAway) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.register_node(test_node(9)).ok());
  EXPECT_FALSE(cluster.step(foreign(1)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(),
              ElementsAre(AllOf(HasSubstr("--control-address"), Not(HasSubstr("was this control plane")))));
}

TEST(Strangers, AreBoundedAndOneLinePerCluster) {
  TestCluster cluster;
  for (uint64_t n = 1; n <= 10 * kStrangersMax; ++n) EXPECT_FALSE(cluster.step(foreign(n)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(), ElementsAre(HasSubstr(absl::StrCat(kStrangersMax, " nodes of"))));
  for (uint64_t n = 1; n <= 10 * kStrangersMax; ++n) EXPECT_FALSE(cluster.step(foreign(n, n)).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(), SizeIs(kStrangersMax));
}

TEST(Strangers, AreOnlyWhatIsWellFormed) {
  TestCluster cluster;
  RegisterNode event = foreign(1);
  event.cluster_id = "\x1b[31mred";
  EXPECT_FALSE(cluster.step(event).status.ok());
  event = foreign(1);
  event.node.grpc_address = "\x1b[31mred:7500";
  EXPECT_FALSE(cluster.step(event).status.ok());
  EXPECT_THAT(cluster.core.stranger_troubles(), IsEmpty());
}

}  // namespace
}  // namespace skua::control
