#include "kvstore/log/segment.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

constexpr uint64_t kSegmentMagic = 0x0a474f4c41554b53;  // "SKUALOG\n"
constexpr std::string_view kSegment = "segment-";
constexpr std::string_view kSpare = "spare-";
constexpr size_t kNameDigits = 16;

std::string make_name(std::string_view kind, uint64_t number) {
  return absl::StrFormat("%s%016x.log", kind, number);
}

/// Accepts only names as make_name() makes them. Another spelling of the same number would be opened by a name that the
/// file does not have.
std::optional<uint64_t> parse_name(std::string_view name, std::string_view kind) {
  uint64_t number = 0;
  if (!name.starts_with(kind) || !absl::SimpleHexAtoi(absl_view(name.substr(kind.size(), kNameDigits)), &number) ||
      make_name(kind, number) != name) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string segment_name(uint64_t sequence) {
  return make_name(kSegment, sequence);
}

std::optional<uint64_t> parse_segment_name(std::string_view name) {
  return parse_name(name, kSegment);
}

std::string spare_name(uint64_t number) {
  return make_name(kSpare, number);
}

std::optional<uint64_t> parse_spare_name(std::string_view name) {
  return parse_name(name, kSpare);
}

uint32_t segment_seed(const LogIdentity& identity, uint64_t sequence) {
  if (mutant(Mutant::kSameSeed)) return 0;
  uint32_t seed = crc32c_extend(crc32c(identity.cluster_id), identity.node_id);
  std::array<std::byte, sizeof(uint32_t) + sizeof(uint64_t)> rest;
  store_le(rest.data(), identity.log_number);
  store_le(rest.data() + sizeof(uint32_t), sequence);
  return crc32c_extend(seed, rest);
}

void encode_segment_header(const SegmentHeader& header, std::vector<std::byte>& out) {
  const size_t bytes = kSegmentHeaderFixedBytes + header.shards.size() * kSegmentHeaderShardBytes;
  out.assign(segment_data_offset(header.shards.size()), std::byte{0});
  ByteWriter writer(out);
  writer.write_all(uint32_t{0}, static_cast<uint32_t>(bytes), kSegmentMagic, kLogFormatVersion,
                   header.identity.log_number, header.identity.cluster_id, header.identity.node_id, header.sequence,
                   header.first_group, header.segment_bytes, static_cast<uint32_t>(header.shards.size()), uint32_t{0});
  for (const ShardPosition& position : header.shards) {
    writer.write_all(position.shard, position.last_index, position.last_epoch);
  }
  store_le(out.data(), crc32c(ByteSpan(out).subspan(sizeof(uint32_t), bytes - sizeof(uint32_t))));
}

absl::StatusOr<SegmentHeader> decode_segment_header(ByteSpan bytes) {
  ByteReader reader(bytes);
  uint32_t crc = 0;
  uint32_t header_bytes = 0;
  uint64_t magic = 0;
  reader.read_into(crc, header_bytes, magic);
  if (!reader.ok() || magic != kSegmentMagic || header_bytes < kSegmentHeaderFixedBytes ||
      header_bytes > bytes.size()) {
    return absl::DataLossError("the segment's header is damaged: this is not the beginning of a segment");
  }
  if (crc32c(bytes.subspan(sizeof(uint32_t), header_bytes - sizeof(uint32_t))) != crc) {
    return absl::DataLossError("the segment's header is damaged: its checksum is wrong");
  }
  const auto version = reader.read<uint32_t>();
  if (version != kLogFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the segment has log format ", version, ", this program reads format ", kLogFormatVersion));
  }
  SegmentHeader header;
  uint32_t shards = 0;
  uint32_t zero = 0;
  reader.read_into(header.identity.log_number, header.identity.cluster_id, header.identity.node_id, header.sequence,
                   header.first_group, header.segment_bytes, shards, zero);
  if (shards > kLogShardsMax || kSegmentHeaderFixedBytes + shards * kSegmentHeaderShardBytes != header_bytes ||
      header.first_group == 0 || segment_data_offset(shards) > bytes.size()) {
    return absl::DataLossError("the segment's header contradicts itself");
  }
  header.shards.resize(shards);
  for (ShardPosition& position : header.shards) {
    reader.read_into(position.shard, position.last_index, position.last_epoch);
  }
  return header;
}

SegmentReader::SegmentReader(ByteSpan segment, const SegmentHeader& header, std::optional<uint64_t> next_first_group)
    : segment_(segment),
      seed_(segment_seed(header.identity, header.sequence)),
      next_first_group_(next_first_group),
      expected_(header.first_group),
      next_offset_(segment_data_offset(header.shards.size())) {}

SegmentReader::Event SegmentReader::next() {
  offset_ = next_offset_;
  damaged_ = false;
  if (ended_ || (next_first_group_ && expected_ >= *next_first_group_)) return Event::kEnd;
  const std::optional<GroupHeader> header = header_at(offset_);
  if (!header || header->number != expected_) return bad_place(nullptr);
  if (!records_sound(*header)) return bad_place(&*header);
  ended_ = tail_.closed = (header->flags & GroupHeader::kClosed) != 0;
  return take_group(*header);
}

/// Decides between damage and the torn tail. `header` is the group's header if that is sound but the group's records
/// are not; else null.
SegmentReader::Event SegmentReader::bad_place(const GroupHeader* header) {
  const std::vector<Found> later = headers_after(offset_);
  uint64_t synced = next_first_group_ ? *next_first_group_ - 1 : 0;
  for (const Found& found : later) synced = std::max(synced, found.header.synced_number);
  if (synced < expected_ || mutant(Mutant::kCutInTheMiddle)) return cut(header, later);
  damaged_ = true;
  damage_ = {.offset = offset_, .first_group = expected_, .last_group = expected_, .shard_bits = kAllShards};
  if (header != nullptr) {
    damage_.shard_bits = header->shard_bits;
    return take_group(*header);
  }
  if (later.empty()) {
    expected_ = *next_first_group_;
    next_offset_ = segment_.size();
  } else {
    expected_ = later.front().header.number;
    next_offset_ = later.front().offset;
    if (expected_ == damage_.first_group + 1) damage_.shard_bits = later.front().header.previous_shard_bits;
  }
  damage_.last_group = expected_ - 1;
  return Event::kDamage;
}

SegmentReader::Event SegmentReader::cut(const GroupHeader* header, std::span<const Found> later) {
  ended_ = true;
  tail_.torn = header != nullptr || !later.empty() || resembles_group(bytes_at(offset_), seed_, expected_);
  tail_.groups_cut = later.size();
  for (const Found& found : later) tail_.sync_groups_cut += (found.header.flags & GroupHeader::kSync) != 0 ? 1 : 0;
  if (header != nullptr && (header->flags & GroupHeader::kSync) != 0) ++tail_.sync_groups_cut;
  return Event::kEnd;
}

SegmentReader::Event SegmentReader::take_group(const GroupHeader& header) {
  group_ = header;
  next_offset_ = round_up(offset_ + header.bytes, kSectorBytes);
  ++expected_;
  return Event::kGroup;
}

bool SegmentReader::records_sound(const GroupHeader& header) const {
  ByteSpan rest = segment_.subspan(offset_, header.bytes).subspan(kGroupHeaderBytes);
  for (uint32_t i = 0; i < header.records; ++i) {
    size_t consumed = 0;
    if (!decode_record(rest, seed_, consumed)) return false;
    rest = rest.subspan(consumed);
  }
  return rest.empty();
}

void SegmentReader::visit_records(absl::FunctionRef<void(const RecordView&)> visit) const {
  ByteSpan rest = segment_.subspan(offset_, group_.bytes).subspan(kGroupHeaderBytes);
  for (uint32_t i = 0; i < group_.records && !rest.empty(); ++i) {
    size_t consumed = 0;
    const auto record = damaged_ ? decode_record(rest, seed_, consumed) : decode_sound_record(rest, consumed);
    if (!record) return;
    visit(*record);
    rest = rest.subspan(consumed);
  }
}

ByteSpan SegmentReader::bytes_at(uint64_t offset) const {
  return segment_.subspan(std::min<uint64_t>(offset, segment_.size()));
}

std::optional<GroupHeader> SegmentReader::header_at(uint64_t offset) const {
  const ByteSpan bytes = bytes_at(offset);
  std::optional<GroupHeader> header = decode_group_header(bytes, seed_);
  if (header && header->bytes > bytes.size()) header.reset();
  return header;
}

std::vector<SegmentReader::Found> SegmentReader::headers_after(uint64_t offset) const {
  std::vector<Found> found;
  uint64_t least = expected_ + 1;
  for (offset += kSectorBytes; offset < segment_.size(); offset += kSectorBytes) {
    const std::optional<GroupHeader> header = header_at(offset);
    if (!header || header->number < least || (next_first_group_ && header->number >= *next_first_group_)) continue;
    found.push_back({offset, *header});
    least = header->number + 1;
  }
  return found;
}

}  // namespace skua::kv
