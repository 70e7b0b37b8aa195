// SnapshotPull: decides which pieces of a shard's snapshot to request from a peer, and when. Pure: no clock, no files,
// no network.
//
//    begin: request the first piece --> file 0: piece, piece, ... --> file 1: ... --> complete
//       ^                        a few under way at once; lost or damaged pieces are requested again after a pause
//       +---- the source has forgotten the snapshot, or contradicts an earlier piece: everything from the start
//
// The first piece of a file carries its name and size. Pieces are requested in order and arrive in any order. The
// number of requests under way bounds the memory. The driver writes each piece to its place in its file and reports
// that (written()).
//
// A token bucket limits the rate. A request may start while the balance is positive, and then takes the bytes that it
// asks for. So the rate holds over time whatever the size of pieces. CRCs protect each piece in transit. ingest_shard()
// checks whether the files together match the snapshot's manifest.
//
// Thread: one at a time.
#ifndef SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_PULL_H_
#define SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_PULL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/replication/copy_codec.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct SnapshotPullOptions {
  uint64_t bytes_per_s = uint64_t{64} << 20;
  /// Bytes that may be requested at once after an idle time.
  uint64_t burst_bytes = 2 * kChunkBytesMax;
  size_t requests_max = 4;
  uint32_t chunk_bytes = kChunkBytesMax;
  /// Pause after a lost piece. It doubles while no piece arrives.
  DurationNs pause_min_ns = 50 * kMillisecond;
  DurationNs pause_max_ns = 2 * kSecond;
  /// After this many damaged pieces in a row the pull starts over: such a run is not due to chance in transit.
  uint32_t damaged_max = 8;
  /// A source that announces more files is not believed.
  uint32_t files_max = 1u << 16;
};

class SnapshotPull {
 public:
  /// A request for the driver to send to the source. Its outcome goes to on_chunk() or on_failed(), once.
  struct Request {
    uint64_t number = 0;
    FetchChunk fetch;
  };
  enum class Taken : uint8_t {
    kWrite,   ///< write the data at its offset of its file, then call written()
    kIgnore,  ///< late, or damaged and requested again
  };
  struct Counters {
    uint64_t requests = 0;
    uint64_t bytes = 0;  ///< of accepted pieces
    uint64_t failed = 0;
    uint64_t damaged = 0;
  };

  SnapshotPull(const SnapshotPullOptions& options, ShardId shard, TimeNs now);

  /// Appends the requests to send now to `out`.
  void poll(TimeNs now, std::vector<Request>& out);
  [[nodiscard]] Taken on_chunk(uint64_t number, const Chunk& chunk, TimeNs now);
  /// The request was lost, not sent, or refused. NOT_FOUND: the source no longer has this snapshot.
  void on_failed(uint64_t number, const absl::Status& why, TimeNs now);
  /// The piece that on_chunk() accepted is in its file. False: everything has started over meanwhile.
  bool written(uint64_t number);
  /// When to call poll() again, if nothing else happens before.
  [[nodiscard]] TimeNs wake_at() const;

  /// Number of the attempt: +1 when everything starts over. Files of earlier attempts are then useless.
  [[nodiscard]] uint64_t attempt() const { return attempt_; }
  /// All bytes of all files are written.
  [[nodiscard]] bool complete() const { return snapshot_ != 0 && files_complete_ == files_.size(); }
  /// The first piece has arrived.
  [[nodiscard]] bool begun() const { return snapshot_ != 0; }
  /// The last entry of the snapshot. Valid once begun().
  [[nodiscard]] EntryId end() const { return end_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Bytes that this attempt has written to their files. Takes time proportional to the number of files.
  [[nodiscard]] uint64_t written_bytes() const;

 private:
  struct File {
    bool known = false;
    bool asked_first = false;
    std::string name;
    uint64_t bytes = 0;
    uint64_t asked = 0;    // end of the part requested so far
    uint64_t written = 0;  // number of bytes written
  };
  struct Piece {
    uint32_t file = 0;
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  struct UnderWay {
    Piece piece;
    bool writing = false;
    uint32_t got = 0;
  };

  [[nodiscard]] bool next_piece(Piece& piece);
  [[nodiscard]] bool agrees(const UnderWay& asked, const Chunk& chunk) const;
  [[nodiscard]] bool learn(const UnderWay& asked, const Chunk& chunk);
  void ask_again(const Piece& piece, TimeNs now);
  void start_over(TimeNs now);
  void pause(TimeNs now);
  void refill(TimeNs now);

  const SnapshotPullOptions options_;
  const ShardId shard_;

  uint64_t attempt_ = 1;
  uint64_t snapshot_ = 0;  // id of the snapshot; 0: not begun
  EntryId end_;
  std::vector<File> files_;
  std::set<std::string, std::less<>> names_;
  size_t files_complete_ = 0;
  uint32_t next_file_ = 0;  // all earlier files have been requested completely
  std::map<uint64_t, UnderWay> under_way_;
  std::deque<Piece> again_;
  uint64_t last_number_ = 0;
  bool waits_ = false;  // nothing else to request: waits for requests under way

  int64_t balance_bytes_;
  TimeNs refilled_ns_;
  TimeNs paused_until_ns_;
  DurationNs pause_ns_;
  uint32_t damaged_in_a_row_ = 0;
  Counters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_PULL_H_
