// What a node reads when it starts, and what it takes from another node into its own files: damaged anywhere, or made
// up. The first byte picks what it is. No crash, no read outside; whatever is accepted is written again as something
// that is read as the same.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/data_dir.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/log/log.h"
#include "kvstore/node/node_state.h"
#include "kvstore/node/unsynced_shards.h"
#include "kvstore/node/view_file.h"
#include "kvstore/replication/append_builder.h"
#include "kvstore/replication/epoch_history.h"
#include "kvstore/snapshot/shard_snapshot.h"
#include "kvstore/snapshot/snapshot_pull.h"
#include "kvstore/snapshot/snapshot_tail.h"
#include "kvstore/storage/blob_file.h"
#include "kvstore/storage/completion_rows.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/storage/shard_life.h"
#include "rpc/base/check.h"
#include "rpc/base/crc32c.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/kvstore/log/sim_device.h"

namespace skua::kv {
namespace {

using fuzz::FuzzInput;

// --- Small files

void fuzz_state(std::string_view text) {
  const auto state = parse_state(text);
  if (state.ok()) SKUA_CHECK(parse_state(format_state(*state)).value() == *state, "another state than was read");
}

void fuzz_views(std::string bytes) {
  // A checksum that the fuzzer need not guess.
  if (bytes.size() > sizeof(uint32_t)) {
    const size_t covered = bytes.size() - sizeof(uint32_t);
    store_le(reinterpret_cast<std::byte*>(bytes.data()) + covered, crc32c(as_byte_span(bytes).first(covered)));
  }
  const auto views = decode_views(bytes);
  if (!views.ok()) return;
  const auto again = encode_views(*views);
  SKUA_CHECK(again.ok() && decode_views(*again).value() == *views, "other views than were read");
}

void fuzz_unsynced(std::string_view text) {
  const auto boots = UnsyncedShards::parse(text);
  if (boots.ok()) SKUA_CHECK(UnsyncedShards::parse(UnsyncedShards::format(*boots)).value() == *boots, "other shards");
}

/// Goes with the process.
struct Directory {
  Directory() : path((std::filesystem::temp_directory_path() / "skua_fuzz_files_XXXXXX").string()) {
    SKUA_CHECK(mkdtemp(path.data()) != nullptr, "a temporary directory cannot be made");
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

void fuzz_identity(std::string_view text) {
  static const Directory directory;
  const std::string file = directory.path + "/identity.toml";
  std::ofstream(file, std::ios::binary) << text;
  static_cast<void>(app::read_identity(directory.path));
  std::filesystem::remove(file);
}

void fuzz_names(const std::string& text) {
  if (const auto id = files::parse_shard_name(text); id) SKUA_CHECK(files::shard_name(*id) == text, "another name");
  if (const auto sequence = parse_segment_name(text); sequence) {
    SKUA_CHECK(segment_name(*sequence) == text, "another segment's name");
  }
}

/// Of a snapshot: its first bytes are their number and checksum, which the fuzzer need not guess.
void fuzz_manifest(std::string bytes) {
  if (bytes.size() >= 2 * sizeof(uint32_t)) {
    auto* const head = reinterpret_cast<std::byte*>(bytes.data());
    store_le(head + sizeof(uint32_t), static_cast<uint32_t>(bytes.size()));
    store_le(head, crc32c(as_byte_span(bytes).subspan(sizeof(uint32_t))));
  }
  const auto manifest = decode_manifest(bytes);
  if (!manifest.ok()) return;
  for (const SnapshotFile& file : manifest->files) {
    // A name becomes a file next to the others.
    SKUA_CHECK(std::filesystem::path("/a/" + file.name).lexically_normal().parent_path() == "/a",
               "a name of elsewhere");
    SKUA_CHECK(file.name != kSnapshotManifestName, "a manifest that names itself");
  }
  SKUA_CHECK(encode_manifest(*manifest) == bytes, "another manifest than was read");
}

// --- A database's own rows

void fuzz_rows(FuzzInput& in) {
  std::vector<InternalRow> rows;
  while (!in.empty() && rows.size() < 20) {
    InternalRow& row = rows.emplace_back();
    switch (in.pick(5)) {
      case 0: row.key = completion_key(in.near(0)); break;
      case 1: row.key = replica_runs_key(); break;
      case 2: row.key = replica_tail_key(in.near(1)); break;
      case 3: row.key = life_key(); break;
      default: row.key = std::string(kKeyBytesMax, '\0') + in.short_text();
    }
    row.value = in.short_text();
  }
  CompletionRows completions;
  static_cast<void>(completions.load(rows));
  static_cast<void>(read_life(rows));
  ReplicaRows replica;
  if (!replica.load(rows).ok()) return;
  static_cast<void>(decode_epoch_history(as_byte_span(replica.runs)));
  for (const auto& [index, tail] : replica.tail) {
    ReplicaRows again;
    const std::vector<InternalRow> one = {{replica_tail_key(index), encode_tail_row(tail)}};
    SKUA_CHECK(again.load(one).ok() && again.tail.at(index).payload == tail.payload, "another entry than was read");
  }
}

// --- A blob file

uint32_t masked(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

/// Records whose checksums are right, around lengths that may not be.
std::string make_blob_file(FuzzInput& in) {
  constexpr uint32_t kMagic = 2395959;
  const auto put = [](std::string& out, auto value) {
    std::array<std::byte, sizeof value> bytes;
    store_le(bytes.data(), value);
    out.append(as_string_view(bytes));
  };
  std::string file;
  put(file, kMagic);
  file.resize(30);
  for (size_t i = in.pick(4); i > 0; --i) {
    const std::string key = in.short_text();
    const std::string value = in.short_text();
    std::string record;
    put(record, in.seldom() ? in.near(key.size()) : uint64_t{key.size()});
    put(record, in.seldom() ? in.near(value.size()) : uint64_t{value.size()});
    put(record, uint64_t{0});
    put(record, masked(crc32c(as_byte_span(record))));
    put(record, masked(crc32c(as_byte_span(key + value))));
    file.append(record).append(key).append(value);
  }
  std::string footer;
  put(footer, kMagic);
  footer.resize(28);
  put(footer, masked(crc32c(as_byte_span(footer))));
  file += footer;
  in.damage(file);
  return file;
}

void fuzz_blob_file(FuzzInput& in) {
  static const int fd = memfd_create("blob", MFD_CLOEXEC);
  SKUA_CHECK(fd >= 0, "a file in memory cannot be made");
  const std::string bytes = in.flag() ? make_blob_file(in) : std::string(as_string_view(in.take_rest()));
  SKUA_CHECK(ftruncate(fd, 0) == 0, "a file in memory can be shortened");
  SKUA_CHECK(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "and be written");
  static_cast<void>(check_blob_file(absl::StrCat("/proc/self/fd/", fd)));
}

// --- A log

constexpr uint64_t kSegmentBytes = 32 << 10;
constexpr size_t kLogShards = 3;

LogOptions log_options() {
  LogOptions options;
  options.segment_bytes = kSegmentBytes;
  options.group_bytes_max = kSegmentBytes / 2;
  options.reserve_segments = 1;
  options.spares_at_open = 0;
  options.spares_max = 1;
  options.segments_max = 8;
  return options;
}

using Segments = std::map<std::string, std::string>;

std::string payload_of(LogShard shard, uint64_t index) {
  return absl::StrCat("shard ", shard, " record ", index, std::string(index * 97 % 3000, 'p'));
}

/// As a log is left when its machine loses power: three segments, several shards, one that left, one in a second epoch.
Segments make_log() {
  sim::SimDevice device(1, uint64_t{1} << 30);
  const auto recovery = LogRecovery::scan(device, {}, [](const LogProgress&) {}).value();
  const auto log = Log::open(device, log_options(), *recovery).value();
  for (LogShard shard = 1; shard <= kLogShards; ++shard)
    SKUA_CHECK(log->start_shard(shard, 0, 1, 0).ok(), "a new shard");
  for (uint64_t index = 1; index <= 20; ++index) {
    for (LogShard shard = 1; shard <= kLogShards; ++shard) {
      const std::string payload = payload_of(shard, index);
      const std::array pieces = {as_byte_span(payload)};
      RecordHeader header{.shard = shard, .index = index, .epoch = shard == 2 && index >= 15 ? 2U : 1U};
      SKUA_CHECK(log->append(header, pieces).ok(), "the next record");
    }
    SKUA_CHECK(log->commit().ok(), "a disk that never fails");
  }
  SKUA_CHECK(log->end_shard(3, 0).ok() && log->commit().ok(), "a shard may leave");
  Segments segments;
  const std::vector<std::string> names = device.list().value();
  for (const std::string& name : names) segments[name] = as_string_view(device.contents(name));
  return segments;
}

/// The group's or record's checksum at this place, as if its writer had meant it.
void mend(std::string& segment, size_t at, uint32_t seed) {
  auto* const bytes = reinterpret_cast<std::byte*>(segment.data());
  if (at + kGroupHeaderBytes > segment.size()) return;
  const ByteSpan group = as_byte_span(segment).subspan(at, kGroupHeaderBytes);
  store_le(bytes + at, crc32c_extend(seed, group.subspan(sizeof(uint32_t))));
  size_t record = at + kGroupHeaderBytes;
  for (int i = 0; i < 8 && record + kRecordHeaderBytes <= segment.size(); ++i) {
    const auto payload = load_le<uint32_t>(bytes + record + 4);
    if (payload > segment.size() - record - kRecordHeaderBytes) return;
    const size_t whole = kRecordHeaderBytes + payload;
    store_le(bytes + record,
             crc32c_extend(seed, as_byte_span(segment).subspan(record + sizeof(uint32_t), whole - sizeof(uint32_t))));
    record += record_bytes(payload);
  }
}

void damage_log(FuzzInput& in, Segments& segments) {
  for (size_t i = 1 + in.pick(6); i > 0; --i) {
    auto at = segments.begin();
    std::advance(at, static_cast<ptrdiff_t>(in.pick(segments.size())));
    std::string& segment = at->second;
    if (in.seldom() && segments.size() > 1) {
      segments.erase(at);
      continue;
    }
    if (in.seldom()) segment.resize(in.number<uint16_t>() / kSectorBytes * kSectorBytes);
    if (segment.empty()) continue;
    const size_t sector = in.number<uint16_t>() % segment.size() / kSectorBytes * kSectorBytes;
    const size_t place = std::min(sector + in.byte(), segment.size() - 1);
    const uint64_t value = in.near(load_le<uint8_t>(as_byte_span(segment).data() + place));
    const size_t width = std::min(size_t{1} << in.pick(4), segment.size() - place);
    for (size_t byte = 0; byte < width; ++byte) segment[place + byte] = static_cast<char>(value >> (8 * byte));
    const auto sequence = parse_segment_name(at->first);
    if (sequence && in.pick(3) != 0) mend(segment, sector, segment_seed({}, *sequence));
    if (in.seldom() && segment.size() >= kSegmentHeaderFixedBytes) {
      const auto header = std::min<size_t>(load_le<uint32_t>(as_byte_span(segment).data() + 4), segment.size());
      if (header > sizeof(uint32_t)) {
        store_le(reinterpret_cast<std::byte*>(segment.data()),
                 crc32c(as_byte_span(segment).first(header).subspan(sizeof(uint32_t))));
      }
    }
  }
}

void fuzz_log(FuzzInput& in) {
  static const Segments whole = make_log();
  Segments segments = whole;
  damage_log(in, segments);
  sim::SimDevice device(1, uint64_t{1} << 30);
  for (const auto& [name, bytes] : segments) {
    const auto file = device.create(name, bytes.size(), Device::Fill::kReserve).value();
    if (!bytes.empty()) SKUA_CHECK(file->write(0, as_byte_span(bytes), WriteMode::kDurable).ok(), "whole sectors");
  }
  const auto recovery = LogRecovery::scan(device, {}, [](const LogProgress&) {});
  if (!recovery.ok()) return;
  std::vector<AppliedIndex> applied;
  for (const ShardPosition& position : (*recovery)->shards()) {
    applied.push_back({position.shard, in.near(position.last_index / 2)});
  }
  if (applied.empty()) applied.push_back({1, 0});
  std::map<LogShard, uint64_t> last;
  for (const AppliedIndex& shard : applied) last[shard.shard] = shard.index;
  const absl::Status replayed = (*recovery)->replay(
      applied,
      [&](const RecordView& record) {
        SKUA_CHECK(last.contains(record.header.shard), "a record of a shard that nobody asked for");
        uint64_t& before = last[record.header.shard];
        SKUA_CHECK(record.header.index > before, "a shard's records do not rise");
        before = record.header.index;
      },
      [](const LogProgress&) {});
  static_cast<void>(replayed);
  const auto log = Log::open(device, log_options(), **recovery);
  if (!log.ok()) return;
  if ((*log)->start_shard(9, 0, 1, 0).ok()) static_cast<void>((*log)->commit());
  static_cast<void>((*log)->close());
}

// --- A copy from another node

constexpr ptrdiff_t kRequestsKept = 20;

void fuzz_pull(FuzzInput& in) {
  SnapshotPullOptions options;
  options.chunk_bytes = 64;
  options.burst_bytes = 1000;
  options.files_max = 50;
  TimeNs now = kSecond;
  SnapshotPull pull(options, {7, 0}, now);
  std::vector<SnapshotPull::Request> requests;
  uint64_t attempt = pull.attempt();
  const uint64_t snapshot = 1 + in.byte();
  while (!in.empty()) {
    const size_t before = requests.size();
    pull.poll(now, requests);
    SKUA_CHECK(requests.size() - before <= options.requests_max, "more requests than may be under way");
    // Answers to earlier attempts' requests come late, or never.
    if (requests.size() > kRequestsKept) requests.erase(requests.begin(), requests.end() - kRequestsKept);
    now += static_cast<DurationNs>(in.byte()) * kMillisecond;
    static_cast<void>(pull.wake_at());
    static_cast<void>(pull.written_bytes());
    if (requests.empty()) continue;
    const size_t which = in.pick(requests.size());
    const SnapshotPull::Request request = requests[which];
    requests.erase(requests.begin() + static_cast<ptrdiff_t>(which));
    if (in.pick(6) == 0) {
      pull.on_failed(request.number, in.flag() ? absl::NotFoundError("") : absl::UnavailableError(""), now);
      continue;
    }
    const std::string name = in.seldom() ? in.short_text() : absl::StrCat("file", request.fetch.file);
    const std::string data(in.seldom() ? in.byte() : request.fetch.bytes_max, 'd');
    Chunk chunk;
    chunk.snapshot = in.seldom() ? in.near(snapshot) : snapshot;
    chunk.end = {in.seldom() ? in.near(5) : 5, 3};
    chunk.files = in.seldom() ? in.number<uint32_t>() : 3;
    chunk.file_bytes = in.seldom() ? in.near(request.fetch.offset) : 200;
    chunk.offset = in.seldom() ? in.near(request.fetch.offset) : request.fetch.offset;
    chunk.name = name;
    chunk.data = as_byte_span(data).first(
        std::min<uint64_t>(data.size(), in.flag() ? data.size() : 200 - std::min<uint64_t>(200, chunk.offset)));
    chunk.crc32c = in.seldom() ? in.number<uint32_t>() : crc32c(chunk.data);
    std::array<std::byte, kChunkHeadBytesMax> head;
    const auto encoded = encode_chunk_head(chunk, head);
    std::string bytes = encoded.ok() ? std::string(as_string_view(*encoded)).append(as_string_view(chunk.data)) : "";
    if (in.seldom()) in.damage(bytes);
    const auto decoded = decode_chunk(as_byte_span(bytes));
    if (!decoded.ok()) {
      pull.on_failed(request.number, decoded.status(), now);
      continue;
    }
    chunk = *decoded;
    const bool take = pull.on_chunk(in.seldom() ? in.near(request.number) : request.number, chunk, now) ==
                      SnapshotPull::Taken::kWrite;
    if (take) {
      SKUA_CHECK(is_plain_file_name(chunk.name), "a name that leads out of the directory");
      SKUA_CHECK(chunk.offset + chunk.data.size() <= chunk.file_bytes, "bytes behind the end of their file");
      static_cast<void>(pull.written(request.number));
    }
    SKUA_CHECK(pull.attempt() >= attempt, "attempts are counted up");
    attempt = pull.attempt();
  }
}

void fuzz_tail(FuzzInput& in) {
  TimeNs now = kSecond;
  SnapshotTail tail({}, {7, 0}, 4, {in.near(10), in.near(3)}, now);
  ReplicaFrame frame;
  while (!in.empty()) {
    now += static_cast<DurationNs>(in.byte()) * kMillisecond;
    if (!tail.poll(now)) continue;
    const EntryId before = tail.end();
    if (in.pick(8) == 0) {
      tail.on_failed(in.flag() ? absl::OutOfRangeError("") : absl::UnavailableError(""), now);
      continue;
    }
    AppendBuffers buffers;
    AppendBuilder builder(buffers);
    Append header;
    header.epoch = in.near(before.epoch);
    header.prev = {in.near(before.index), in.near(before.epoch)};
    header.commit_index = in.near(before.index + 3);
    builder.begin({7, in.seldom() ? 1U : 0U, in.seldom() ? 5U : 4U, 1}, header, rpc::MessagePtr::make());
    for (size_t i = in.pick(4); i > 0; --i) {
      const std::string payload = in.short_text();
      if (!builder.add({in.near(before.epoch), 1, Durability::kSync, 0, as_byte_span(payload)})) break;
    }
    const rpc::MessagePtr message = builder.finish();
    std::string bytes(as_string_view(message->head()));
    for (size_t i = 0; i < message->body_count(); ++i) bytes.append(as_string_view(message->body(i)));
    in.damage(bytes);
    const auto taken = tail.on_piece(as_byte_span(bytes), frame, now);
    SKUA_CHECK(tail.end().index >= before.index, "a tail that goes back");
    if (taken.ok() && *taken == SnapshotTail::Taken::kKeep) {
      const auto& append = std::get<Append>(frame.message);
      SKUA_CHECK(append.prev.index == before.index, "a piece that does not follow");
      tail.kept();
    }
  }
}

}  // namespace
}  // namespace skua::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skua::kv;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  const skua::ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  const std::string text(skua::as_string_view(bytes));
  FuzzInput in(bytes);
  switch (data[0] % 16) {
    case 0: fuzz_state(text); break;
    case 1: fuzz_views(text); break;
    case 2: fuzz_unsynced(text); break;
    case 3: fuzz_identity(text); break;
    case 4: fuzz_names(text); break;
    case 5:
    case 6: fuzz_rows(in); break;
    case 7:
    case 8: fuzz_blob_file(in); break;
    case 9:
    case 10: fuzz_pull(in); break;
    case 11: fuzz_tail(in); break;
    case 15: fuzz_manifest(text); break;
    default: fuzz_log(in);
  }
  return 0;
}
