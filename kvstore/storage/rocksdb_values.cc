// What stands before a value in a database, and the filter that drops values that have expired.
#include <memory>
#include <utility>

#include "kvstore/storage/rocksdb_internal.h"
#include "kvstore/types/expiry.h"
#include "kvstore/types/machine_clock.h"
#include "rpc/base/check.h"

namespace skua::kv::internal {
namespace {

/// The filter of one compaction. RocksDB replaces a row that it removes by a deletion where older rows may lie below.
/// To look at a value in a blob file the filter must read it, so it does not do that in a database without values that
/// expire in blob files.
class ExpiryFilter final : public rocksdb::CompactionFilter {
 public:
  ExpiryFilter(uint64_t now_ms, bool reads_blobs) : now_ms_(now_ms), reads_blobs_(reads_blobs) {}

  [[nodiscard]] const char* Name() const override { return "skua.expiry"; }

  bool Filter(int /*level*/, const rocksdb::Slice& key, const rocksdb::Slice& stored, std::string* /*new_value*/,
              bool* /*value_changed*/) const override {
    if (key.empty()) return false;  // the shard's own record
    const auto row = split_version(stored);
    return row && is_expired(row->expires_at, now_ms_);
  }

  [[nodiscard]] Decision FilterBlobByKey(int /*level*/, const rocksdb::Slice& /*key*/, std::string* /*new_value*/,
                                         std::string* /*skip_until*/) const override {
    return reads_blobs_ ? Decision::kUndetermined : Decision::kKeep;
  }

 private:
  const uint64_t now_ms_;
  const bool reads_blobs_;
};

class ExpiryFilterFactory final : public rocksdb::CompactionFilterFactory {
 public:
  ExpiryFilterFactory(const MachineClock& clock, ExpiringBlobs expiring_blobs)
      : clock_(clock), expiring_blobs_(std::move(expiring_blobs)) {}

  [[nodiscard]] const char* Name() const override { return "skua.expiry"; }

  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    return std::make_unique<ExpiryFilter>(clock_.unix_ms(), expiring_blobs_ != nullptr && expiring_blobs_->load());
  }

 private:
  const MachineClock& clock_;
  const ExpiringBlobs expiring_blobs_;
};

}  // namespace

std::string_view encode_value_prefix(uint64_t version, uint64_t expires_at, RecordMark mark,
                                     std::array<char, kValuePrefixBytesMax>& buffer) {
  SKUA_CHECK(version < kHasMarkBit, "a version of a shard whose indices are used up");
  ByteWriter writer(std::as_writable_bytes(std::span(buffer)));
  writer.write(version | (expires_at == 0 ? 0 : kHasExpiryBit) | (mark.empty() ? 0 : kHasMarkBit));
  if (expires_at != 0) writer.write(expires_at);
  if (!mark.empty()) writer.write(mark.word());
  return as_string_view(writer.written());
}

std::string internal_keys_begin() {
  return std::string(kKeyBytesMax, '\0');
}

std::string internal_keys_end() {
  std::string end(kKeyBytesMax, '\0');
  end.back() = '\1';
  return end;
}

std::shared_ptr<rocksdb::CompactionFilterFactory> make_expiry_filter(const MachineClock& clock,
                                                                     ExpiringBlobs expiring_blobs) {
  return std::make_shared<ExpiryFilterFactory>(clock, std::move(expiring_blobs));
}

}  // namespace skua::kv::internal
