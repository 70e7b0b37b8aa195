// Elections on a real etcd, and that whoever lost one cannot write.
#include "control/store/etcd_election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/control/etcd_process.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

constexpr ElectionOptions kFast{.lease_ns = 2 * kSecond, .period_ns = 100 * kMillisecond};

/// One control process, as far as elections go.
class Candidate {
 public:
  Candidate(const EtcdAddress& address, std::string name)
      : store_(*EtcdStore::open({.address = address, .open_timeout_ns = kGenerous})),
        election_(make_etcd_election(*store_, kFast)) {
    election_->start(name, [this](const Leadership& leadership) {
      std::lock_guard lock(mutex_);
      leadership_ = leadership;
    });
  }
  ~Candidate() { election_->stop(); }

  [[nodiscard]] Leadership leadership() {
    std::lock_guard lock(mutex_);
    return leadership_;
  }
  void stop() { election_->stop(); }
  EtcdStore& store() { return *store_; }
  absl::Status put() { return store_->transact({{}, {Operation::put("a", "1")}, {}}).status(); }

 private:
  std::mutex mutex_;
  Leadership leadership_;
  std::unique_ptr<EtcdStore> store_;
  std::unique_ptr<Election> election_;
};

class EtcdElectionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
  }
};

TEST_F(EtcdElectionTest, OneLeadsAndTheOtherTakesOver) {
  EtcdProcess etcd;
  Candidate one(etcd.address("p"), "one:1");
  ASSERT_TRUE(eventually([&] { return one.leadership().leads; }));
  EXPECT_TRUE(one.put().ok());
  Candidate other(etcd.address("p"), "other:1");
  ASSERT_TRUE(eventually([&] { return other.leadership().leader == "one:1"; }));
  EXPECT_FALSE(other.leadership().leads);
  one.stop();
  ASSERT_TRUE(eventually([&] { return other.leadership().leads; }));
  const absl::Status late = one.put();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << late;
  EXPECT_THAT(std::string(late.message()), testing::HasSubstr("other:1 does"));
  EXPECT_TRUE(other.put().ok());
}

TEST_F(EtcdElectionTest, LeadEndsWithoutEtcdAndComesBackWithIt) {
  EtcdProcess etcd;
  Candidate one(etcd.address("p"), "one:1");
  ASSERT_TRUE(eventually([&] { return one.leadership().leads; }));
  etcd.kill9();
  ASSERT_TRUE(eventually([&] { return !one.leadership().leads; }));
  ASSERT_TRUE(eventually([&] { return !one.leadership().trouble.empty(); }));
  etcd.start();
  ASSERT_TRUE(eventually([&] { return one.leadership().leads; }));
  EXPECT_TRUE(one.put().ok());
}

TEST_F(EtcdElectionTest, PrefixesHaveTheirOwnLeaders) {
  EtcdProcess etcd;
  Candidate one(etcd.address("p"), "one:1");
  Candidate other(etcd.address("q"), "other:1");
  EXPECT_TRUE(eventually([&] { return one.leadership().leads && other.leadership().leads; }));
}

}  // namespace
}  // namespace skua::control
