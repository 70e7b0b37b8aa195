// HdrHistogram's interval log, the form in which Java YCSB writes latencies for other programs
// (hdrhistogram.fileoutput): one line per interval with the whole histogram in it, so that logs of
// several clients can be merged without loss.
//
//   #[Logging for: READ]
//   #[Histogram log format version 1.3]
//   #[StartTime: 1700000000.000 (seconds since epoch), ...]
//   "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//   0.000,10.000,0.001,HISTFAAA...
//
// The last column is base64 of the V2 encoding, numbers big endian:
//
//   | cookie 0x1c849314 | length | zlib stream of:                                            |
//   |   cookie 0x1c849313 | length | offset 0 | digits 3 | lowest 1 | highest | ratio 1.0 |   |
//   |   counts as zigzag LEB128: a count, or minus the length of a run of zeros               |
//
// Bucket boundaries are those of skua::Histogram: 2048 buckets of width 1, then 1024 per power of
// two. The zlib stream holds stored blocks: these logs are small, and any reader takes them.
#ifndef SKUA_YCSB_CORE_HDR_LOG_H_
#define SKUA_YCSB_CORE_HDR_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/base/clock.h"
#include "rpc/base/histogram.h"

namespace skua::ycsb {

/// The lines before the first interval. `date` is for human readers.
[[nodiscard]] std::string hdr_log_header(std::string_view name, int64_t start_epoch_ms, std::string_view date);

/// One interval's line; times since the start of the run.
[[nodiscard]] std::string hdr_log_line(const Histogram& histogram, TimeNs interval_start, TimeNs interval_end);

/// The last column of a line.
[[nodiscard]] std::string hdr_encode(const Histogram& histogram);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_HDR_LOG_H_
