#include "ycsb/core/core_workload.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace skua::ycsb {
namespace {

std::unique_ptr<CoreWorkload> make(std::string_view text) {
  Properties p;
  EXPECT_TRUE(p.parse(text).ok());
  const auto options = WorkloadOptions::parse(p);
  EXPECT_TRUE(options.ok()) << options.status();
  auto workload = CoreWorkload::make(*options, "");
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

TEST(CoreWorkload, NextLoad_KeysInOrderFromInsertStartWithAllFields) {
  const auto workload = make("recordcount=1000\ninsertstart=0\nfieldcount=3\nfieldlength=20");
  OperationSource source(*workload, Rng(1));
  Operation op;
  source.next_load(op);
  EXPECT_EQ(op.kind, OpKind::kInsert);
  EXPECT_EQ(op.key, "user6284781860667377211");
  ASSERT_EQ(op.writes().size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(op.writes()[i].field, i);
    EXPECT_EQ(op.writes()[i].value.size(), 20U);
  }
  EXPECT_EQ(workload->schema().field_names[2], "field2");
  source.next_load(op);
  EXPECT_EQ(op.key, "user8517097267634966620");
}

TEST(CoreWorkload, NextLoad_SourcesShareTheSequence) {
  const auto workload = make("recordcount=100\ninsertstart=10\ninsertorder=ordered\nzeropadding=4");
  OperationSource one(*workload, Rng(1));
  OperationSource other(*workload, Rng(2));
  Operation op;
  one.next_load(op);
  EXPECT_EQ(op.key, "user0010");
  other.next_load(op);
  EXPECT_EQ(op.key, "user0011");
}

TEST(CoreWorkload, NextTransaction_ProportionsOfWorkloadMix) {
  const auto workload = make(
      "recordcount=1000\nreadproportion=0.4\nupdateproportion=0.3\nscanproportion=0.2\n"
      "readmodifywriteproportion=0.1\nmaxscanlength=50\nfieldlength=8");
  OperationSource source(*workload, Rng(1));
  Operation op;
  std::map<OpKind, double> share;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    ASSERT_TRUE(source.next_transaction(op));
    share[op.kind] += 1.0 / kDraws;
    ASSERT_LT(op.key_number, 1000U);
    switch (op.kind) {
      case OpKind::kRead:
        ASSERT_TRUE(op.all_fields);
        ASSERT_TRUE(op.writes().empty());
        break;
      case OpKind::kScan:
        ASSERT_GE(op.scan_length, 1U);
        ASSERT_LE(op.scan_length, 50U);
        break;
      default: ASSERT_EQ(op.writes().size(), 1U);
    }
  }
  EXPECT_NEAR(share[OpKind::kRead], 0.4, 0.01);
  EXPECT_NEAR(share[OpKind::kUpdate], 0.3, 0.01);
  EXPECT_NEAR(share[OpKind::kScan], 0.2, 0.01);
  EXPECT_NEAR(share[OpKind::kReadModifyWrite], 0.1, 0.01);
}

// Java: DiscreteGenerator divides each weight by their sum.
TEST(CoreWorkload, NextTransaction_ProportionsAboveOneAreWeights) {
  const auto workload =
      make("recordcount=1000\nreadproportion=15\nupdateproportion=0\ninsertproportion=5\nfieldcount=1");
  OperationSource source(*workload, Rng(1));
  Operation op;
  double inserts = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    ASSERT_TRUE(source.next_transaction(op));
    if (op.kind != OpKind::kInsert) continue;
    inserts += 1.0 / kDraws;
    workload->acknowledge(op);
  }
  EXPECT_NEAR(inserts, 0.25, 0.01);
}

// Java: expectednewkeys = (int) (opcount * insertproportion * 2.0), and the generator counts both ends of
// [insertstart, insertstart + insertcount + expectednewkeys].
TEST(CoreWorkload, ZipfianKeyCount_IsJavasWhateverTheWeight) {
  const auto keys = [](std::string_view more) {
    Properties p;
    EXPECT_TRUE(p.parse(std::string("recordcount=1000\nrequestdistribution=zipfian\n").append(more)).ok());
    const auto options = WorkloadOptions::parse(p);
    EXPECT_TRUE(options.ok()) << options.status();
    return zipfian_key_count(*options);
  };
  EXPECT_EQ(keys("operationcount=1000\ninsertproportion=0"), 1001U);
  EXPECT_EQ(keys("operationcount=1000\ninsertproportion=0.05"), 1101U);
  EXPECT_EQ(keys("operationcount=1000\ninsertproportion=1"), 3001U);
  EXPECT_EQ(keys("operationcount=1000\ninsertproportion=5\nreadproportion=95"), 11'001U);
  EXPECT_EQ(keys("operationcount=33\ninsertproportion=0.05"), 1004U);  // 3.3 is cut to 3
  EXPECT_EQ(keys("operationcount=100\ninsertproportion=2\ninsertstart=900"), 501U);
  EXPECT_EQ(keys("operationcount=1000\ninsertproportion=5\nkeyhash=cpp"), 11'000U);
  EXPECT_GT(keys("operationcount=4000000000000000000\ninsertproportion=1000000000"), uint64_t{1} << 61);
}

TEST(CoreWorkload, NextLoad_BeginsBehindRecordcountAsWell) {
  const auto workload = make(
      "dotransactions=false\nrecordcount=10\ninsertstart=10\ninsertorder=ordered\nrequestdistribution=zipfian\n"
      "keyhash=cpp\nreadproportion=0\nupdateproportion=0");
  OperationSource source(*workload, Rng(1));
  Operation op;
  source.next_load(op);
  EXPECT_EQ(op.key, "user10");
}

TEST(CoreWorkload, NextTransaction_FieldsReadAndWritten) {
  Operation op;
  const auto one_field = make("recordcount=10\nreadallfields=false\nreadproportion=1\nupdateproportion=0");
  OperationSource source(*one_field, Rng(1));
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(source.next_transaction(op));
    ASSERT_FALSE(op.all_fields);
    ASSERT_EQ(op.fields.size(), 1U);
    seen.insert(op.fields[0]);
  }
  EXPECT_EQ(seen.size(), 10U);

  const auto by_name = make("recordcount=10\nreadallfieldsbyname=true\nreadproportion=1\nupdateproportion=0");
  OperationSource named(*by_name, Rng(1));
  ASSERT_TRUE(named.next_transaction(op));
  EXPECT_FALSE(op.all_fields);
  EXPECT_EQ(op.fields.size(), 10U);

  const auto all = make("recordcount=10\nwriteallfields=true\nreadproportion=0\nupdateproportion=1");
  OperationSource writer(*all, Rng(1));
  ASSERT_TRUE(writer.next_transaction(op));
  EXPECT_EQ(op.writes().size(), 10U);
}

TEST(CoreWorkload, NextTransaction_InsertsStartAtRecordCountAndAreVisibleOnceAcknowledged) {
  const auto workload = make(
      "recordcount=1000\ninsertorder=ordered\nreadproportion=0\nupdateproportion="
      "0\ninsertproportion=1");
  OperationSource source(*workload, Rng(1));
  Operation first;
  Operation second;
  ASSERT_TRUE(source.next_transaction(first));
  ASSERT_TRUE(source.next_transaction(second));
  EXPECT_EQ(first.key, "user1000");
  EXPECT_EQ(second.key, "user1001");
  EXPECT_EQ(first.writes().size(), 10U);
  EXPECT_EQ(workload->last_acknowledged(), 999U);
  workload->acknowledge(second);
  EXPECT_EQ(workload->last_acknowledged(), 999U);
  workload->acknowledge(first);
  EXPECT_EQ(workload->last_acknowledged(), 1001U);
}

TEST(CoreWorkload, NextTransaction_WaitsAtTheInsertWindow) {
  const auto workload = make(
      "recordcount=10\nfieldcount=1\nfieldlength=1\nreadproportion=0\nupdateproportion=0\n"
      "insertproportion=1");
  OperationSource source(*workload, Rng(1));
  Operation first;
  Operation op;
  ASSERT_TRUE(source.next_transaction(first));
  uint64_t more = 0;
  while (source.next_transaction(op)) ++more;
  EXPECT_EQ(more + 1, kInsertWindow);
  EXPECT_FALSE(source.next_transaction(op));
  workload->acknowledge(first);
  EXPECT_TRUE(source.next_transaction(op));
}

TEST(CoreWorkload, NextTransaction_NeverAsksForWhatIsNotThere) {
  for (const char* distribution :
       {"uniform", "zipfian", "latest", "hotspot", "exponential", "sequential", "zipfian_exact"}) {
    const auto workload =
        make(std::string("recordcount=50\noperationcount=100000\nreadproportion=0.9\nupdateproportion=0\n"
                         "insertproportion=0.1\nfieldcount=1\nfieldlength=1\nrequestdistribution=") +
             distribution);
    OperationSource source(*workload, Rng(1));
    for (int i = 0; i < 20'000; ++i) {
      Operation op;
      ASSERT_TRUE(source.next_transaction(op));
      if (op.kind == OpKind::kInsert) {
        workload->acknowledge(op);
      } else {
        ASSERT_LE(op.key_number, workload->last_acknowledged()) << distribution;
      }
    }
  }
}

TEST(CoreWorkload, NextTransaction_SameSeedSameOperations) {
  std::string first;
  for (int run = 0; run < 2; ++run) {
    const auto workload =
        make("recordcount=1000\nrequestdistribution=zipfian\nreadproportion=0.5\nupdateproportion=0.5");
    OperationSource source(*workload, Rng(42));
    std::string log;
    Operation op;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(source.next_transaction(op));
      log += op.key;
      for (const FieldWrite& write : op.writes()) log += write.value;
    }
    if (run == 0) first = log;
    EXPECT_EQ(log, first);
  }
}

TEST(CoreWorkload, NextTransaction_VaryingLengths) {
  const auto workload = make(
      "recordcount=10\nfieldlengthdistribution=uniform\nminfieldlength=0\nfieldlength=3000\n"
      "readproportion=0\nupdateproportion=1\nwriteallfields=true\nfieldcount=5");
  OperationSource source(*workload, Rng(1));
  Operation op;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(source.next_transaction(op));
    for (const FieldWrite& write : op.writes()) {
      ASSERT_LE(write.value.size(), 3000U);
      for (const char c : write.value) ASSERT_GE(c, ' ');
    }
  }
}

TEST(CoreWorkload, Verify_DataIntegrity) {
  const auto workload = make("recordcount=10\ndataintegrity=true\nfieldcount=2\nfieldlength=50");
  OperationSource source(*workload, Rng(1));
  Operation op;
  source.next_load(op);
  std::vector<NamedValue> fields = {{"field0", op.writes()[0].value}, {"field1", op.writes()[1].value}};
  EXPECT_EQ(workload->verify(op.key, fields), Status::kOk);
  EXPECT_EQ(workload->verify(op.key, {}), Status::kError);
  std::swap(fields[0].value, fields[1].value);
  EXPECT_EQ(workload->verify(op.key, fields), Status::kUnexpectedState);
}

TEST(CoreWorkload, Make_HistogramTextIsUsed) {
  Properties p;
  ASSERT_TRUE(p.parse("recordcount=10\nfieldlengthdistribution=histogram\nfieldcount=1").ok());
  const auto options = WorkloadOptions::parse(p);
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(CoreWorkload::make(*options, "nonsense").ok());
  const auto workload = CoreWorkload::make(*options, "BlockSize\t7\n0\t1\n");
  ASSERT_TRUE(workload.ok()) << workload.status();
  OperationSource source(**workload, Rng(1));
  Operation op;
  source.next_load(op);
  EXPECT_EQ(op.writes()[0].value.size(), 7U);
}

}  // namespace
}  // namespace skua::ycsb
