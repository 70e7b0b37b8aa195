#include "ycsb/core/workload_options.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::ycsb {
namespace {

absl::StatusOr<WorkloadOptions> parse(std::string_view text) {
  Properties p;
  EXPECT_TRUE(p.parse(text).ok());
  return WorkloadOptions::parse(p);
}

TEST(WorkloadOptions, Parse_DefaultsAreJavas) {
  const auto o = parse("");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->table, "usertable");
  EXPECT_EQ(o->record_count, 2'147'483'647U);
  EXPECT_EQ(o->insert_start, 0U);
  EXPECT_EQ(o->insert_count, o->record_count);
  EXPECT_FALSE(o->ordered_inserts);
  EXPECT_EQ(o->key_prefix, "user");
  EXPECT_EQ(o->zero_padding, 1U);
  EXPECT_EQ(o->field_count, 10U);
  EXPECT_EQ(o->field_length, 100U);
  EXPECT_EQ(o->field_length_min, 1U);
  EXPECT_EQ(o->proportions, (std::array<double, 5>{0.95, 0.05, 0, 0, 0}));
  EXPECT_EQ(o->request_distribution, RequestDistribution::kUniform);
  EXPECT_TRUE(o->read_all_fields);
  EXPECT_FALSE(o->write_all_fields);
  EXPECT_EQ(o->scan_length_min, 1U);
  EXPECT_EQ(o->scan_length_max, 1000U);
  EXPECT_EQ(o->exponential_fraction, 0.8571428571);
}

TEST(WorkloadOptions, Parse_AnyCoreWorkloadNameIsAccepted) {
  EXPECT_TRUE(parse("workload=site.ycsb.workloads.CoreWorkload").ok());
  EXPECT_TRUE(parse("workload=com.yahoo.ycsb.workloads.CoreWorkload").ok());
  EXPECT_TRUE(parse("workload=core").ok());
  EXPECT_FALSE(parse("workload=site.ycsb.workloads.TimeSeriesWorkload").ok());
}

TEST(WorkloadOptions, Parse_InsertRange) {
  const auto o = parse("recordcount=100\ninsertstart=40\n");
  ASSERT_TRUE(o.ok());
  EXPECT_EQ(o->insert_count, 60U);
  EXPECT_TRUE(parse("recordcount=100\ninsertstart=40\ninsertcount=60").ok());
  EXPECT_FALSE(parse("recordcount=100\ninsertstart=40\ninsertcount=61").ok());
  EXPECT_FALSE(parse("recordcount=100\ninsertstart=100").ok());
}

// Java's load inserts recordcount records from insertstart on, wherever that is, and never draws an operation.
TEST(WorkloadOptions, Parse_ALoadLooksAtNoProportionsAndBeginsAnywhere) {
  const std::string load = "dotransactions=false\nrecordcount=1000\n";
  for (const char* odd : {"insertstart=1000", "insertstart=5000", "insertstart=500\ninsertcount=500",
                          "readproportion=0\nupdateproportion=0", "readproportion=-1", "insertproportion=20",
                          "insertstart=1000\nrequestdistribution=zipfian"}) {
    const auto o = parse(load + odd);
    EXPECT_TRUE(o.ok()) << odd << ": " << o.status();
    EXPECT_FALSE(o->transactions);
  }
  // What is judged in Java's both phases.
  const auto beyond = parse(load + "insertstart=500\ninsertcount=501");
  EXPECT_NE(
      std::string(beyond.status().message()).find("insertstart (500) + insertcount must not exceed recordcount (1000)"),
      std::string::npos);
}

TEST(WorkloadOptions, Parse_ProportionsAreWeights) {
  const auto o = parse("recordcount=1000\nreadproportion=95\nupdateproportion=0\ninsertproportion=5");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->proportions, (std::array<double, 5>{95, 0, 5, 0, 0}));
}

TEST(WorkloadOptions, Parse_SixtyFourBitCounts) {
  const auto o = parse("recordcount=5000000000\noperationcount=6000000000");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->record_count, 5'000'000'000U);
  EXPECT_EQ(o->operation_count, 6'000'000'000U);
}

TEST(WorkloadOptions, Parse_RefusesNonsense) {
  for (const char* text : {"recordcount=many", "fieldcount=0", "fieldlength=100000000", "readproportion=-1",
                           "readproportion=0\nupdateproportion=0", "requestdistribution=zipf", "keyhash=rust",
                           "minscanlength=10\nmaxscanlength=5", "zipfian_const=1", "hotspotdatafraction=2",
                           "fieldlengthdistribution=uniform\nminfieldlength=200", "readallfields=yes",
                           "dataintegrity=true\nfieldlengthdistribution=uniform", "exponential.percentile=100",
                           "fieldcount=60000\nfieldlength=60000"}) {
    const auto o = parse(text);
    EXPECT_EQ(o.status().code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string name(std::string_view(text).substr(0, std::string_view(text).find('=')));
    if (std::string_view(text).find('\n') == std::string_view::npos) {
      EXPECT_NE(std::string(o.status().message()).find(name), std::string::npos) << o.status();
    }
  }
}

}  // namespace
}  // namespace skua::ycsb
