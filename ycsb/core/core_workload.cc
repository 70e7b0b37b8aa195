#include "ycsb/core/core_workload.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ycsb/core/text.h"
#include "ycsb/core/text_values.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

KeyChooser make_key_chooser(const WorkloadOptions& o) {
  if (!o.transactions) return UniformChooser{0, 1};  // never asked
  switch (o.request_distribution) {
    case RequestDistribution::kUniform: break;
    case RequestDistribution::kZipfian:
      return ScrambledChooser{ScrambledZipfian(o.insert_start, zipfian_key_count(o), o.key_hash, o.zipfian_theta)};
    case RequestDistribution::kZipfianExact:
      return ExactZipfianChooser{o.insert_start, Zipfian(o.insert_count, o.zipfian_theta)};
    case RequestDistribution::kLatest:
      return LatestChooser{Zipfian(std::max<uint64_t>(o.record_count - 1, 1), kZipfianTheta)};
    case RequestDistribution::kHotspot: {
      const auto hot = std::min(o.insert_count,
                                static_cast<uint64_t>(static_cast<double>(o.insert_count) * o.hotspot_data_fraction));
      return HotspotChooser{o.insert_start, hot, o.insert_count - hot, o.hotspot_operation_fraction};
    }
    case RequestDistribution::kExponential:
      return ExponentialChooser(o.exponential_percentile, static_cast<double>(o.record_count) * o.exponential_fraction);
    case RequestDistribution::kSequential:
      return SequentialChooser{o.insert_start, o.insert_count, std::make_shared<std::atomic<uint64_t>>(0)};
  }
  return UniformChooser{o.insert_start, o.insert_count};
}

KindChooser make_kind_chooser(const WorkloadOptions& o) {
  return KindChooser(o.transactions ? o.proportions : std::array<double, 5>{1});  // a load never asks
}

FieldLength make_scan_length(const WorkloadOptions& o) {
  return o.scan_length_zipfian ? FieldLength::zipfian(o.scan_length_min, o.scan_length_max)
                               : FieldLength::uniform(o.scan_length_min, o.scan_length_max);
}

absl::StatusOr<FieldLength> make_field_length(const WorkloadOptions& o, std::string_view histogram) {
  switch (o.field_length_distribution) {
    case LengthDistribution::kConstant: break;
    case LengthDistribution::kUniform: return FieldLength::uniform(o.field_length_min, o.field_length);
    case LengthDistribution::kZipfian: return FieldLength::zipfian(o.field_length_min, o.field_length);
    case LengthDistribution::kHistogram: return FieldLength::histogram(histogram);
  }
  return FieldLength::constant(o.field_length);
}

}  // namespace

uint64_t zipfian_key_count(const WorkloadOptions& options) {
  const double insert_weight = options.proportions[2];
  const double expected = static_cast<double>(options.operation_count) * insert_weight * 2.0;
  // Java and Go count one more than YCSB-cpp.
  return options.insert_count + static_cast<uint64_t>(std::min(expected, static_cast<double>(kRecordsMax))) +
         (options.key_hash == KeyHash::kCpp ? 0 : 1);
}

absl::StatusOr<std::unique_ptr<CoreWorkload>> CoreWorkload::make(const WorkloadOptions& options,
                                                                 std::string_view field_length_histogram) {
  absl::StatusOr<FieldLength> field_length = make_field_length(options, field_length_histogram);
  if (!field_length.ok()) return invalid_argument("field length histogram: ", message_of(field_length.status()));
  return std::unique_ptr<CoreWorkload>(new CoreWorkload(options, *std::move(field_length)));
}

CoreWorkload::CoreWorkload(const WorkloadOptions& options, FieldLength field_length)
    : options_(options),
      field_length_(std::move(field_length)),
      scan_length_(make_scan_length(options)),
      kinds_(make_kind_chooser(options)),
      keys_(make_key_chooser(options)),
      load_sequence_(options.insert_start),
      transaction_inserts_(options.record_count) {
  schema_.table = options.table;
  for (uint32_t i = 0; i < options.field_count; ++i) {
    schema_.field_names.push_back(concat(options.field_name_prefix, i));
    all_fields_.push_back(i);
  }
}

Status CoreWorkload::verify(std::string_view key, std::span<const NamedValue> fields) const {
  if (fields.empty()) return Status::kError;
  const bool right = std::all_of(fields.begin(), fields.end(), [&](const NamedValue& field) {
    return is_deterministic_text(field.value, options_.field_length, key, field.name);
  });
  return right ? Status::kOk : Status::kUnexpectedState;
}

OperationSource::OperationSource(CoreWorkload& workload, Rng rng)
    : workload_(workload),
      options_(workload.options_),
      rng_(rng),
      field_length_(workload.field_length_),
      scan_length_(workload.scan_length_),
      keys_(workload.keys_) {}

void OperationSource::next_load(Operation& out) {
  out.kind = OpKind::kInsert;
  set_key(out, workload_.load_sequence_.fetch_add(1, std::memory_order_relaxed));
  fill_values(out, workload_.all_fields_);
}

bool OperationSource::next_transaction(Operation& out) {
  out.kind = insert_pending_ ? OpKind::kInsert : workload_.kinds_.next(rng_);
  if (out.kind == OpKind::kInsert) {
    const std::optional<uint64_t> number = workload_.transaction_inserts_.next();
    insert_pending_ = !number.has_value();
    if (insert_pending_) return false;
    set_key(out, *number);
    fill_values(out, workload_.all_fields_);
    return true;
  }
  set_key(out, choose_key_number());
  out.clear_writes();
  switch (out.kind) {
    case OpKind::kRead: choose_fields(out, options_.data_integrity || options_.read_all_fields_by_name); break;
    case OpKind::kScan:
      out.scan_length = scan_length_.next(rng_);
      choose_fields(out, false);
      break;
    case OpKind::kReadModifyWrite:
      choose_fields(out, false);
      fill_update(out);
      break;
    case OpKind::kUpdate: fill_update(out); break;
    case OpKind::kInsert:
    case OpKind::kDelete: break;
  }
  return true;
}

uint64_t OperationSource::choose_key_number() {
  for (;;) {
    const uint64_t last = workload_.last_acknowledged();
    const uint64_t number = std::visit([&](auto& chooser) { return chooser.next(rng_, last); }, keys_);
    if (number <= last) return number;
  }
}

void OperationSource::set_key(Operation& out, uint64_t number) const {
  out.key_number = number;
  write_key(out.key, options_.key_prefix,
            options_.ordered_inserts ? number : hash_key_number(number, options_.key_hash), options_.zero_padding);
}

void OperationSource::choose_fields(Operation& out, bool by_name) {
  out.fields.clear();
  out.all_fields = options_.read_all_fields && !by_name;
  if (out.all_fields) return;
  if (options_.read_all_fields) {
    out.fields = workload_.all_fields_;
  } else {
    out.fields.push_back(static_cast<uint32_t>(rng_.below(options_.field_count)));
  }
}

void OperationSource::fill_update(Operation& out) {
  if (options_.write_all_fields) {
    fill_values(out, workload_.all_fields_);
  } else {
    const auto field = static_cast<uint32_t>(rng_.below(options_.field_count));
    fill_values(out, {&field, 1});
  }
}

void OperationSource::fill_values(Operation& out, std::span<const uint32_t> fields) {
  lengths_.clear();
  for (size_t i = 0; i < fields.size(); ++i) lengths_.push_back(field_length_.next(rng_));
  out.begin_writes(fields, lengths_);
  for (size_t i = 0; i < fields.size(); ++i) {
    if (options_.data_integrity) {
      fill_deterministic_text(out.value_room(i), lengths_[i], out.key, workload_.schema_.field_names[fields[i]]);
    } else {
      fill_random_text(out.value_room(i), lengths_[i], rng_);
    }
  }
}

}  // namespace skua::ycsb
