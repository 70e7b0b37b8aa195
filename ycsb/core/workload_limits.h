// Every bound of the YCSB driver in one place. A property beyond its bound is refused with a
// message that names the bound.
#ifndef SKUA_YCSB_CORE_WORKLOAD_LIMITS_H_
#define SKUA_YCSB_CORE_WORKLOAD_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::ycsb {

inline constexpr uint64_t kThreadsMax = 1024;
/// Operations in flight per thread.
inline constexpr uint64_t kInFlightMax = 65'536;
inline constexpr uint64_t kFieldCountMax = 65'536;
inline constexpr uint64_t kFieldLengthMax = uint64_t{64} << 20;
/// fieldcount times fieldlength.
inline constexpr uint64_t kRecordBytesMax = uint64_t{256} << 20;
inline constexpr uint64_t kScanLengthMax = 10'000'000;
inline constexpr uint64_t kZeroPaddingMax = 200;
/// Largest key number; leaves room to count inserts on top without wrapping a signed 64-bit number.
inline constexpr uint64_t kRecordsMax = uint64_t{1} << 62;
/// Transaction inserts that may be unacknowledged at once (YCSB's window).
inline constexpr uint64_t kInsertWindow = uint64_t{1} << 20;
/// Latencies are recorded in microseconds up to this one (71 minutes).
inline constexpr uint64_t kLatencyMaxUs = uint64_t{1} << 32;
/// Points kept by measurementtype=raw; further ones are counted, not kept (16 bytes each).
inline constexpr size_t kRawPointsMax = size_t{1} << 24;
/// Units kept by measurementtype=timeseries; later latencies fall into the last one.
inline constexpr size_t kTimeUnitsMax = size_t{1} << 20;
inline constexpr uint64_t kHistogramBucketsMax = 1'000'000;

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_WORKLOAD_LIMITS_H_
