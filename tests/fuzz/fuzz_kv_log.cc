// The log's decoders: a segment's header, group headers, records, and the walk through a segment that is newest or not.
// No crash, no read outside of the input, no endless walk; what a decoder accepts its encoder makes again byte for
// byte.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "kvstore/log/record.h"
#include "kvstore/log/segment.h"
#include "rpc/base/crc32c.h"

namespace {

using namespace skua;      // NOLINT(google-build-using-namespace)
using namespace skua::kv;  // NOLINT(google-build-using-namespace)

/// A checksum that the fuzzer need not guess.
void mend(std::vector<std::byte>& bytes, size_t covered_end, uint32_t seed) {
  if (covered_end < sizeof(uint32_t) || covered_end > bytes.size()) return;
  const ByteSpan covered = ByteSpan(bytes).first(covered_end).subspan(sizeof(uint32_t));
  store_le(bytes.data(), crc32c_extend(seed, covered));
}

void fuzz_record(std::vector<std::byte> bytes) {
  if (bytes.size() >= kRecordHeaderBytes) mend(bytes, kRecordHeaderBytes + load_le<uint32_t>(bytes.data() + 4), 1);
  size_t consumed = 0;
  const auto record = decode_record(bytes, 1, consumed);
  if (!record) return;
  std::vector<std::byte> again(record_bytes(record->payload.size()));
  encode_record_header(record->header, record->payload.size(), again.data());
  copy_bytes(again.data() + kRecordHeaderBytes, record->payload);
  if (seal_record(again.data(), 1) != consumed) std::abort();
  const size_t whole = kRecordHeaderBytes + record->payload.size();
  if (!std::ranges::equal(ByteSpan(again).first(whole), ByteSpan(bytes).first(whole))) std::abort();
}

void fuzz_group(std::vector<std::byte> bytes) {
  mend(bytes, kGroupHeaderBytes, 1);
  (void)resembles_group(bytes, 1, 5);
  const auto header = decode_group_header(bytes, 1);
  if (!header) return;
  std::vector<std::byte> again(kGroupHeaderBytes);
  encode_group_header(*header, 1, again.data());
  if (!std::ranges::equal(again, ByteSpan(bytes).first(kGroupHeaderBytes))) std::abort();
}

void fuzz_segment_header(std::vector<std::byte> bytes) {
  if (bytes.size() >= kSegmentHeaderFixedBytes) mend(bytes, load_le<uint32_t>(bytes.data() + 4), 0);
  const auto header = decode_segment_header(bytes);
  if (!header.ok()) return;
  std::vector<std::byte> again;
  encode_segment_header(*header, again);
  const auto twice = decode_segment_header(again);
  if (!twice.ok() || *twice != *header) std::abort();
}

/// The input as what follows a sound header; groups in it are mended as far as their lengths make sense.
void fuzz_walk(ByteSpan input, bool newest) {
  SegmentHeader header;
  header.sequence = header.first_group = 1;
  std::vector<std::byte> bytes;
  encode_segment_header(header, bytes);
  const size_t data = bytes.size();
  bytes.insert(bytes.end(), input.begin(), input.end());
  const uint32_t seed = segment_seed(header.identity, header.sequence);
  for (size_t at = data; at + kGroupHeaderBytes <= bytes.size(); at += kSectorBytes) {
    std::vector<std::byte> head(bytes.begin() + static_cast<ptrdiff_t>(at),
                                bytes.begin() + static_cast<ptrdiff_t>(at + kGroupHeaderBytes));
    mend(head, kGroupHeaderBytes, seed);
    copy_bytes(bytes.data() + at, head);
  }
  SegmentReader reader(bytes, header, newest ? std::nullopt : std::optional<uint64_t>(9));
  uint64_t events = 0;
  for (auto event = reader.next(); event != SegmentReader::Event::kEnd; event = reader.next()) {
    if (event == SegmentReader::Event::kGroup) reader.visit_records([](const RecordView&) {});
    if (++events > bytes.size()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 5) {
    case 0: fuzz_record({bytes.begin(), bytes.end()}); break;
    case 1: fuzz_group({bytes.begin(), bytes.end()}); break;
    case 2: fuzz_segment_header({bytes.begin(), bytes.end()}); break;
    default: fuzz_walk(bytes, data[0] % 5 == 3);
  }
  return 0;
}
