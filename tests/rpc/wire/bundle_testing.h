// Bundles made and read by hand, byte by byte: the dumb twin of rpc/wire/bundle.h.
#ifndef SKUA_TESTS_RPC_WIRE_BUNDLE_TESTING_H_
#define SKUA_TESTS_RPC_WIRE_BUNDLE_TESTING_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/base/bytes.h"
#include "rpc/base/crc32c.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc::testing {

struct Record {
  RecordHead head;
  std::string bytes;
  bool operator==(const Record&) const = default;
};

/// The records in a row, each with its head. `head.bytes` is written as it is.
inline std::string encode_records(const std::vector<Record>& records) {
  std::string out;
  for (const Record& record : records) {
    std::byte head[kRecordHeadBytes];
    record.head.write(head);
    out += as_string_view(head);
    out += record.bytes;
  }
  return out;
}

/// `records` are bytes already.
inline std::string seal(const BundleHead& head, bool integrity, std::string_view records) {
  std::string out(kBundleHeadBytes, '\xee');
  out += records;
  seal_bundle(head, integrity, {reinterpret_cast<std::byte*>(out.data()), out.size()});
  return out;
}

/// Why a bundle is to be dropped, as docs/wire-format.md has it; none: it is not.
inline std::optional<DropReason> refusal_by_hand(ByteSpan bundle, bool integrity) {
  if (bundle.size() < 28) return DropReason::kTooShort;
  const auto first = std::to_integer<unsigned>(bundle[0]);
  if (first / 16 != 2) return DropReason::kBadVersion;
  if (first % 16 != 1) return DropReason::kBadType;
  ByteReader in(bundle.subspan(4));
  const auto said = in.read<uint32_t>();
  if (integrity) return said == bundle.size() ? std::nullopt : std::optional(DropReason::kBadLength);
  std::string covered(as_string_view(bundle.first(4)));
  covered += as_string_view(bundle.subspan(8));
  const uint32_t crc = skua::internal::crc32c_extend_portable(0, as_byte_span(covered));
  return said == crc ? std::nullopt : std::optional(DropReason::kBadChecksum);
}

/// Of a bundle that was not refused.
inline BundleHead head_by_hand(ByteSpan bundle) {
  BundleHead head;
  ByteReader in(bundle.subspan(1));
  head.flags = in.read<uint8_t>();
  head.records = in.read<uint16_t>();
  static_cast<void>(in.read<uint32_t>());
  head.association = in.read<uint32_t>();
  head.epoch = in.read<uint32_t>();
  head.stamp = in.read<uint32_t>();
  head.echo = in.read<uint32_t>();
  head.sequence = in.read<uint32_t>();
  return head;
}

struct RecordsRead {
  std::vector<Record> records;  // those before the first that does not fit
  bool is_malformed = false;
  bool operator==(const RecordsRead&) const = default;
};

/// Of a bundle that has a whole head.
inline RecordsRead read_records_by_hand(ByteSpan bundle, uint32_t count) {
  RecordsRead out;
  ByteReader in(bundle.subspan(28));
  for (; count > 0; --count) {
    Record record;
    record.head.session = in.read<uint32_t>();
    record.head.number = in.read<uint32_t>();
    const auto sized = in.read<uint16_t>();
    record.head.bytes = sized % 4096;
    record.head.kind = static_cast<RecordKind>(sized / 4096);
    record.head.method = in.read<uint8_t>();
    record.head.time = in.read<uint8_t>();
    record.bytes = as_string_view(in.read_bytes(record.head.bytes));
    if (!in.ok()) break;
    out.records.push_back(record);
  }
  out.is_malformed = !in.complete();
  return out;
}

/// The same by RecordReader.
inline RecordsRead read_records(ByteSpan bundle, uint16_t count) {
  RecordsRead out;
  RecordReader reader(bundle, count);
  Record record;
  ByteSpan bytes;
  while (reader.next(record.head, bytes)) {
    record.bytes = as_string_view(bytes);
    out.records.push_back(record);
  }
  out.is_malformed = reader.is_malformed();
  return out;
}

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_WIRE_BUNDLE_TESTING_H_
