// Bundles (rpc/wire/bundle.h). No read outside of the input, no record outside of the bundle, the twin that reads byte
// by byte agrees, and what is accepted is encoded again as it was.
//
//     first byte   bit 0     the transport detects corruption itself: a length in place of the CRC
//                  bits 1-2  0  the rest is a bundle
//                            1  the same, but its length or CRC is set right: otherwise nearly all is refused
//                            2  the rest says what bundle to make, and what to damage in it
//                            3  times left
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/rpc/wire/bundle_testing.h"

namespace {

using namespace skua;                // NOLINT(google-build-using-namespace)
using namespace skua::rpc;           // NOLINT(google-build-using-namespace)
using namespace skua::rpc::testing;  // NOLINT(google-build-using-namespace)

/// Every record lies in the bundle, behind the one before.
void check_places(ByteSpan bundle, uint16_t count) {
  RecordReader reader(bundle, count);
  RecordHead head;
  ByteSpan bytes;
  size_t at = kBundleHeadBytes;
  while (reader.next(head, bytes)) {
    SKUA_CHECK(bytes.data() == bundle.data() + at + kRecordHeadBytes, "a record that is not behind the one before");
    SKUA_CHECK(bytes.size() == head.bytes, "a record of another size than it says");
    at += kRecordHeadBytes + bytes.size();
    SKUA_CHECK(at <= bundle.size(), "a record outside of the bundle");
  }
  SKUA_CHECK(!reader.next(head, bytes), "a record behind the last");
}

void check_join(const Record& record) {
  JoinRecord join;
  const bool ok = JoinRecord::read(as_byte_span(record.bytes), join);
  SKUA_CHECK(ok == (record.bytes.size() == 16), "a join of another size");
  if (!ok) return;
  std::byte again[JoinRecord::kBytes];
  join.write(again);
  SKUA_CHECK(as_string_view(again) == record.bytes, "a join does not round trip");
}

/// True: it is accepted, with whole records.
bool check_bundle(ByteSpan bundle, bool integrity) {
  BundleHead head;
  DropReason why{};
  const bool opened = open_bundle(bundle, integrity, head, why);
  const std::optional<DropReason> by_hand = refusal_by_hand(bundle, integrity);
  SKUA_CHECK(opened == !by_hand, "the twin judges otherwise");
  SKUA_CHECK(opened || why == *by_hand, "the twin has another reason");
  if (!opened) return false;
  SKUA_CHECK(is_bundle(bundle.data()), "a bundle that does not look like one");
  SKUA_CHECK(!integrity || stream_bundle_bytes(bundle.data()) == bundle.size(), "a length that is not the bundle's");
  SKUA_CHECK(head == head_by_hand(bundle), "the twin reads another head");
  check_places(bundle, head.records);
  const RecordsRead read = read_records(bundle, head.records);
  SKUA_CHECK(read == read_records_by_hand(bundle, head.records), "the twin reads other records");
  for (const Record& record : read.records) check_join(record);
  const std::string records = encode_records(read.records);
  SKUA_CHECK(as_string_view(bundle).substr(kBundleHeadBytes).starts_with(records), "records do not round trip");
  if (read.is_malformed) return false;
  SKUA_CHECK(read.records.size() == head.records, "records are missing");
  SKUA_CHECK(seal(head, integrity, records) == as_string_view(bundle), "a bundle does not round trip");
  return true;
}

/// Memory of its own, of exactly that size: what is read behind it is seen.
bool check_copy(const std::string& bundle, bool integrity) {
  const std::vector<std::byte> copy(as_byte_span(bundle).begin(), as_byte_span(bundle).end());
  return check_bundle(copy, integrity);
}

void set_right(ByteSpan bytes, bool integrity) {
  std::vector<std::byte> bundle(bytes.begin(), bytes.end());
  if (bundle.size() >= kBundleHeadBytes) {
    bundle[0] = std::byte{BundleHead::kVersionAndType};
    store_le(bundle.data() + 4, integrity ? static_cast<uint32_t>(bundle.size()) : bundle_crc(bundle));
  }
  check_bundle(bundle, integrity);
}

Record make_record(fuzz::FuzzInput& in) {
  Record out;
  out.head.session = in.number<uint32_t>();
  out.head.number = in.number<uint32_t>();
  out.head.kind = static_cast<RecordKind>(in.pick(16));
  out.head.method = in.byte();
  out.head.time = in.byte();
  const size_t bytes = in.seldom() ? in.number<uint16_t>() % (kRecordBytesMax + 1) : in.byte() % 40u;
  out.bytes = as_string_view(in.take(bytes));
  out.bytes.resize(bytes, '.');
  out.head.bytes = static_cast<uint16_t>(bytes);
  return out;
}

void make_bundle(fuzz::FuzzInput in, bool integrity) {
  BundleHead head;
  head.flags = in.byte();
  head.association = in.number<uint32_t>();
  head.epoch = in.number<uint32_t>();
  head.stamp = in.number<uint32_t>();
  head.echo = in.number<uint32_t>();
  head.sequence = in.number<uint32_t>();
  std::vector<Record> records(in.pick(20));
  for (Record& record : records) record = make_record(in);
  head.records = static_cast<uint16_t>(records.size());
  std::string bundle = seal(head, integrity, encode_records(records));
  SKUA_CHECK(check_copy(bundle, integrity), "what was made is not accepted");
  SKUA_CHECK(head_by_hand(as_byte_span(bundle)) == head, "another head than was made");
  SKUA_CHECK(read_records(as_byte_span(bundle), head.records).records == records, "other records than were made");
  in.damage(bundle);
  check_copy(bundle, integrity);
  set_right(as_byte_span(bundle), integrity);
}

void check_times(fuzz::FuzzInput in) {
  const auto a = static_cast<DurationNs>(in.number<uint64_t>());
  const auto b = static_cast<DurationNs>(in.near(static_cast<uint64_t>(a)));
  constexpr DurationNs kLongest = time_of_code(0xff);
  for (const DurationNs left : {a, b}) {
    const DurationNs coded = time_of_code(time_code(left));
    SKUA_CHECK(coded >= std::min(left, kLongest), "a time is rounded down");
    SKUA_CHECK(left > 0 || coded == 0, "there is time left where there is none");
    SKUA_CHECK(left <= 0 || left > kLongest || coded <= left + left / 8 + kMillisecond, "a time is far too long");
  }
  SKUA_CHECK(a > b || time_of_code(time_code(a)) <= time_of_code(time_code(b)), "a longer time is coded shorter");
  SKUA_CHECK(b > a || time_of_code(time_code(b)) <= time_of_code(time_code(a)), "a longer time is coded shorter");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  const bool integrity = data[0] % 2 == 1;
  switch (data[0] / 2 % 4) {
    case 0: check_bundle(bytes, integrity); break;
    case 1: set_right(bytes, integrity); break;
    case 2: make_bundle(fuzz::FuzzInput(bytes), integrity); break;
    default: check_times(fuzz::FuzzInput(bytes));
  }
  return 0;
}
