#include "ycsb/core/workload_options.h"

#include <algorithm>

#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

/// What Java takes recordcount=0 for inside the workload.
constexpr uint64_t kUnlimitedRecords = 2'147'483'647;

void parse_keys(PropertyReader& in, WorkloadOptions& out) {
  out.record_count = in.whole("recordcount", 0, 0, kRecordsMax);
  if (out.record_count == 0) out.record_count = kUnlimitedRecords;
  out.insert_start = in.whole("insertstart", 0, 0, kRecordsMax);
  const uint64_t left = out.record_count - std::min(out.insert_start, out.record_count);
  // As in Java, a load without insertcount may begin anywhere.
  if (out.transactions && left == 0) {
    in.fail(concat("insertstart=", out.insert_start, ": must be below recordcount (", out.record_count,
                   "), which counts the records of all clients together"));
  }
  out.insert_count = in.whole("insertcount", left, 0, kRecordsMax);
  if (out.insert_count > left) {
    in.fail(concat("insertcount=", out.insert_count, ": insertstart (", out.insert_start,
                   ") + insertcount must not exceed recordcount (", out.record_count,
                   "), which counts the records of all clients together"));
  }
  if (out.insert_count == 0) out.insert_count = left;
  out.ordered_inserts = in.text("insertorder", "hashed") != "hashed";
  out.key_hash = static_cast<KeyHash>(in.choice("keyhash", "java", {"java", "cpp", "go"}));
  out.key_prefix = in.text("keyprefix", "user");
  out.zero_padding = in.whole("zeropadding", 1, 0, kZeroPaddingMax);
}

void parse_records(PropertyReader& in, WorkloadOptions& out) {
  out.field_count = in.whole("fieldcount", 10, 1, kFieldCountMax);
  out.field_name_prefix = in.text("fieldnameprefix", "field");
  out.field_length_distribution = static_cast<LengthDistribution>(
      in.choice("fieldlengthdistribution", "constant", {"constant", "uniform", "zipfian", "histogram"}));
  out.field_length = in.whole("fieldlength", 100, 0, kFieldLengthMax);
  out.field_length_min = in.whole("minfieldlength", 1, 0, kFieldLengthMax);
  const bool ranged = out.field_length_distribution == LengthDistribution::kUniform ||
                      out.field_length_distribution == LengthDistribution::kZipfian;
  if (ranged && out.field_length_min > out.field_length) {
    in.fail(concat("minfieldlength=", out.field_length_min, ": must not exceed fieldlength (", out.field_length, ")"));
  }
  if (out.field_count * out.field_length > kRecordBytesMax) {
    in.fail(concat("fieldcount=", out.field_count, " times fieldlength=", out.field_length, ": a record is at most ",
                   kRecordBytesMax, " bytes"));
  }
  out.data_integrity = in.flag("dataintegrity", false);
  if (out.data_integrity && out.field_length_distribution != LengthDistribution::kConstant)
    in.fail("dataintegrity=true: needs fieldlengthdistribution=constant");
}

void parse_proportions(PropertyReader& in, WorkloadOptions& out) {
  out.proportions = {in.real("readproportion", 0.95, 0, 1e9), in.real("updateproportion", 0.05, 0, 1e9),
                     in.real("insertproportion", 0, 0, 1e9), in.real("scanproportion", 0, 0, 1e9),
                     in.real("readmodifywriteproportion", 0, 0, 1e9)};
  double sum = 0;
  for (const double weight : out.proportions) sum += weight;
  if (sum <= 0) {
    in.fail(
        "readproportion, updateproportion, insertproportion, scanproportion and "
        "readmodifywriteproportion are all 0: nothing to do; set one above 0");
  }
}

void parse_operations(PropertyReader& in, WorkloadOptions& out) {
  out.operation_count = in.whole("operationcount", 0, 0, kRecordsMax);
  if (out.transactions) parse_proportions(in, out);
  out.read_all_fields = in.flag("readallfields", true);
  out.read_all_fields_by_name = in.flag("readallfieldsbyname", false);
  out.write_all_fields = in.flag("writeallfields", false);
  out.scan_length_min = in.whole("minscanlength", 1, 0, kScanLengthMax);
  out.scan_length_max = in.whole("maxscanlength", 1000, 1, kScanLengthMax);
  if (out.scan_length_min > out.scan_length_max) {
    in.fail(
        concat("minscanlength=", out.scan_length_min, ": must not exceed maxscanlength (", out.scan_length_max, ")"));
  }
  out.scan_length_zipfian = in.choice("scanlengthdistribution", "uniform", {"uniform", "zipfian"}) == 1;
}

void parse_distribution(PropertyReader& in, WorkloadOptions& out) {
  out.request_distribution = static_cast<RequestDistribution>(
      in.choice("requestdistribution", "uniform",
                {"uniform", "zipfian", "latest", "hotspot", "exponential", "sequential", "zipfian_exact"}));
  out.zipfian_theta = in.real("zipfian_const", kZipfianTheta, 0.001, 0.999);
  out.hotspot_data_fraction = in.real("hotspotdatafraction", 0.2, 0, 1);
  out.hotspot_operation_fraction = in.real("hotspotopnfraction", 0.8, 0, 1);
  out.exponential_percentile = in.real("exponential.percentile", 95, 0.001, 99.999999);
  out.exponential_fraction = in.real("exponential.frac", 0.8571428571, 1e-9, 1e9);
}

}  // namespace

absl::StatusOr<WorkloadOptions> WorkloadOptions::parse(const Properties& properties) {
  PropertyReader in(properties);
  WorkloadOptions out;
  const std::string workload = in.text("workload", "core");
  if (workload != "core" && !workload.ends_with(".CoreWorkload")) {
    in.fail(
        concat("workload=", workload, ": only the core workload is built in; use site.ycsb.workloads.CoreWorkload"));
  }
  out.table = in.text("table", "usertable");
  if (out.table.empty()) in.fail("table=: must be the name of a table");
  out.transactions = in.flag("dotransactions", true);
  parse_keys(in, out);
  parse_records(in, out);
  parse_operations(in, out);
  parse_distribution(in, out);
  if (!in.status().ok()) return in.status();
  return out;
}

}  // namespace skua::ycsb
