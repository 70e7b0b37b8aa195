// YCSB's core workload: decides what each operation is, and knows nothing of stores, time or
// threads.
//
//   CoreWorkload        one per run: settings, field names, the counters that all threads share
//   OperationSource     one per driver thread: its random numbers and choosers
//
// A driver thread fills Operations from its source, has them executed, and tells the workload
// about each finished transaction insert (acknowledge), so that choosers never ask for a record
// that may not be there yet.
#ifndef SKUA_YCSB_CORE_CORE_WORKLOAD_H_
#define SKUA_YCSB_CORE_CORE_WORKLOAD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/rng.h"
#include "ycsb/core/acknowledged_counter.h"
#include "ycsb/core/field_length.h"
#include "ycsb/core/key_choosers.h"
#include "ycsb/core/operation.h"
#include "ycsb/core/workload_options.h"

namespace skua::ycsb {

/// How many key numbers `requestdistribution=zipfian` is spread over: those of the loaded records and, so that the
/// popular keys do not move while the run inserts, those that it is expected to insert, doubled: operationcount *
/// insertproportion * 2, whatever the proportions sum to, as Java does. Those not inserted yet are redrawn.
[[nodiscard]] uint64_t zipfian_key_count(const WorkloadOptions& options);

class CoreWorkload {
 public:
  /// `field_length_histogram` is the text of the file named by `fieldlengthhistogram`; it is looked
  /// at only for fieldlengthdistribution=histogram. Errors: INVALID_ARGUMENT.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CoreWorkload>> make(const WorkloadOptions& options,
                                                                          std::string_view field_length_histogram);

  [[nodiscard]] const WorkloadOptions& options() const { return options_; }
  [[nodiscard]] const Schema& schema() const { return schema_; }

  /// A transaction insert has ended, well or badly. Thread: any.
  void acknowledge(const Operation& insert) { transaction_inserts_.acknowledge(insert.key_number); }
  /// Thread: any.
  [[nodiscard]] uint64_t last_acknowledged() const { return transaction_inserts_.last(); }

  /// Checks what a READ returned when dataintegrity is on: OK, UNEXPECTED_STATE for a wrong value,
  /// ERROR for no data at all. Thread: any.
  [[nodiscard]] Status verify(std::string_view key, std::span<const NamedValue> fields) const;

 private:
  friend class OperationSource;
  CoreWorkload(const WorkloadOptions& options, FieldLength field_length);

  const WorkloadOptions options_;
  Schema schema_;
  std::vector<uint32_t> all_fields_;
  // Prototypes that each thread copies: making a chooser may have cost a long sum.
  const FieldLength field_length_;
  const FieldLength scan_length_;
  const KindChooser kinds_;
  const KeyChooser keys_;
  // Shared counters.
  std::atomic<uint64_t> load_sequence_;
  AcknowledgedCounter transaction_inserts_;
};

/// Thread: one. Lives no longer than its workload.
class OperationSource {
 public:
  OperationSource(CoreWorkload& workload, Rng rng);

  /// Load phase: the next record to insert.
  void next_load(Operation& out);
  /// Run phase: the next transaction. False, with `out` undefined, if it would be an insert and too
  /// many are unacknowledged: let some finish and ask again (the choice is kept).
  [[nodiscard]] bool next_transaction(Operation& out);

  /// This thread's random numbers, for the driver's own draws (retry and arrival times).
  [[nodiscard]] Rng& rng() { return rng_; }

 private:
  uint64_t choose_key_number();
  void set_key(Operation& out, uint64_t number) const;
  void choose_fields(Operation& out, bool by_name);
  void fill_values(Operation& out, std::span<const uint32_t> fields);
  void fill_update(Operation& out);

  CoreWorkload& workload_;
  const WorkloadOptions& options_;
  Rng rng_;
  FieldLength field_length_;
  FieldLength scan_length_;
  KeyChooser keys_;
  bool insert_pending_ = false;
  std::vector<uint64_t> lengths_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_CORE_WORKLOAD_H_
