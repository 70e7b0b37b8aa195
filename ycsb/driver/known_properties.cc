#include "ycsb/driver/known_properties.h"

namespace skua::ycsb {
namespace {

using Line = std::array<std::string_view, 3>;

constexpr Line kLines[] = {
    {"", "", "How much"},
    {"recordcount", "0 (2^31-1)", "records in the table"},
    {"operationcount", "0 (no end)", "operations of the run phase"},
    {"insertstart", "0", "first record of this client's part"},
    {"insertcount", "the rest", "records of this client's part"},
    {"maxexecutiontime", "0 (no limit)", "seconds after which the run ends"},

    {"", "", "Pace"},
    {"threadcount", "1", "driver threads (-threads)"},
    {"kv.inflight", "1; 256 if open", "operations in flight per thread (-inflight)"},
    {"target", "0 (no limit)", "operations per second, all threads together (-target)"},
    {"arrival", "closed", "closed, or an open loop: uniform, poisson (need a target)"},
    {"spin.sleep", "false", "wait for the next due time without sleeping"},

    {"", "", "Keys"},
    {"table", "usertable", "name of the table"},
    {"insertorder", "hashed", "hashed or ordered"},
    {"keyhash", "java", "java, cpp (YCSB-cpp) or go (go-ycsb): whose key names"},
    {"keyprefix", "user", "what key names begin with"},
    {"zeropadding", "1", "least number of digits in key names"},

    {"", "", "Records"},
    {"fieldcount", "10", "fields per record"},
    {"fieldnameprefix", "field", "field names are this and a number"},
    {"fieldlength", "100", "bytes per field"},
    {"minfieldlength", "1", "least bytes, for the distributions that vary"},
    {"fieldlengthdistribution", "constant", "constant, uniform, zipfian or histogram"},
    {"fieldlengthhistogram", "hist.txt", "file for the latter"},
    {"dataintegrity", "false", "values are a function of the key, and reads check them"},

    {"", "", "Operations"},
    {"readproportion", "0.95", "share of reads"},
    {"updateproportion", "0.05", "share of updates"},
    {"insertproportion", "0", "share of inserts"},
    {"scanproportion", "0", "share of scans"},
    {"readmodifywriteproportion", "0", "share of read-modify-writes"},
    {"readallfields", "true", "read all fields, or one"},
    {"readallfieldsbyname", "false", "ask for all fields by name"},
    {"writeallfields", "false", "update all fields, or one"},
    {"minscanlength", "1", "least records per scan"},
    {"maxscanlength", "1000", "most records per scan"},
    {"scanlengthdistribution", "uniform", "uniform or zipfian"},

    {"", "", "Which records"},
    {"requestdistribution", "uniform", "uniform, zipfian, latest, hotspot, exponential, sequential, zipfian_exact"},
    {"zipfian_const", "0.99", "theta of zipfian and zipfian_exact"},
    {"hotspotdatafraction", "0.2", "hot share of the records"},
    {"hotspotopnfraction", "0.8", "share of operations that go there"},
    {"exponential.percentile", "95", "per cent of operations within exponential.frac"},
    {"exponential.frac", "0.8571428571", "of the records"},
    {"seed", "random", "same seed, one thread: same operations"},

    {"", "", "Failed inserts of the load phase"},
    {"core_workload_insertion_retry_limit", "0", "how often to try again"},
    {"core_workload_insertion_retry_interval", "3", "seconds between tries, more or less"},
    {"core_workload_insertion_keep_going_on_error", "false", "go on after an insert that failed"},

    {"", "", "Output"},
    {"status", "false", "status lines on standard error (-s)"},
    {"status.interval", "10", "seconds between them"},
    {"label", "", "what they begin with (-l)"},
    {"exporter", "text", "text, json, jsonarray or Java's class names"},
    {"exportfile", "standard output", "where the report goes"},
    {"measurementtype", "hdrhistogram",
     "hdrhistogram, histogram, timeseries, raw, hdrhistogram+histogram, hdrhistogram+raw"},
    {"measurement.interval", "op; both if paced", "op, intended or both"},
    {"hdrhistogram.percentiles", "50,95,99", "percentiles in the report"},
    {"hdrhistogram.fileoutput", "false", "write HdrHistogram logs"},
    {"hdrhistogram.output.path", "", "what their names begin with"},
    {"histogram.buckets", "1000", "buckets of 1 ms"},
    {"measurement.histogram.verbose", "false", "list the buckets"},
    {"timeseries.granularity", "1000", "milliseconds per point"},
    {"timeseries.percentiles", "95,99", "percentiles in the report"},
    {"measurement.raw.output_file", "standard output", "where raw points go"},
    {"measurement.raw.no_summary", "false", "leave out their summary"},
    {"reportlatencyforeacherror", "false", "a series for each kind of failure"},
    {"latencytrackederrors", "", "or for these only, separated by commas"},

    {"", "", "For YCSB's sake"},
    {"workload", "core", "the core workload is the only one"},
    {"db", "", "the binding (-db)"},
    {"dotransactions", "true", "run phase, or load phase"},
};

}  // namespace

std::span<const Line> known_properties() {
  return kLines;
}

}  // namespace skua::ycsb
