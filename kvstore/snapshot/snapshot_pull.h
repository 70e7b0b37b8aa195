// SnapshotPull: which pieces of a shard's snapshot to ask a peer for, and when. Pure: no clock, no files, no network.
//
//    begin: what is there? --> file 0: piece, piece, ... --> file 1: ... --> complete
//       ^                        a few under way at once; lost or damaged ones are asked for again after a pause
//       +---- the source knows the snapshot no more, or tells something else than before: everything from the start
//
// A file's name and size come with its first piece. Pieces are asked for in order and arrive in any. Memory is bounded by the
// requests under way; the driver puts each piece in its place in its file and says so.
//
// A token bucket holds the rate: a request may start while the balance is positive and then takes what it asks for, so that
// the rate is kept over time whatever the size of pieces. CRCs guard pieces on their way; whether the files together are
// the snapshot its manifest says is for ingest_shard() to find out.
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
#include "kvstore/replication/message_codec.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct SnapshotPullOptions {
  uint64_t bytes_per_s = uint64_t{64} << 20;
  /// May be asked for at once after an idle time.
  uint64_t burst_bytes = 2 * kChunkBytesMax;
  size_t requests_max = 4;
  uint32_t chunk_bytes = kChunkBytesMax;
  /// After a piece was lost, doubling while nothing arrives.
  DurationNs pause_min_ns = 50 * kMillisecond;
  DurationNs pause_max_ns = 2 * kSecond;
  /// So many damaged pieces in a row are no accident of the way: start over.
  uint32_t damaged_max = 8;
  /// A source that speaks of more files is not believed.
  uint32_t files_max = 1u << 16;
};

class SnapshotPull {
 public:
  /// To be sent to the source; its outcome goes to on_chunk() or on_failed(), once.
  struct Request {
    uint64_t number = 0;
    FetchChunk fetch;
  };
  enum class Taken : uint8_t {
    kWrite,   ///< the chunk's data belongs at its offset of its file: write it, then written()
    kIgnore,  ///< late, or damaged and asked for again
  };
  struct Counters {
    uint64_t requests = 0;
    uint64_t bytes = 0;  ///< of pieces taken
    uint64_t failed = 0;
    uint64_t damaged = 0;
    uint64_t restarts = 0;  ///< everything from the start
  };

  struct Progress {
    uint64_t bytes = 0;        ///< in their files
    uint64_t bytes_known = 0;  ///< of files whose size is known; all, once `sizes_known`
    uint32_t files = 0;
    uint32_t files_complete = 0;
    bool sizes_known = false;
  };

  SnapshotPull(const SnapshotPullOptions& options, uint32_t table, uint32_t shard, TimeNs now);

  /// What to send now; appended to `out`.
  void poll(TimeNs now, std::vector<Request>& out);
  [[nodiscard]] Taken on_chunk(uint64_t number, const Chunk& chunk, TimeNs now);
  /// Lost on the way, not sent, or refused: NOT_FOUND means that the source does not have this snapshot any more.
  void on_failed(uint64_t number, const absl::Status& why, TimeNs now);
  /// The piece that on_chunk() gave out is in its file. False: everything has been started over meanwhile.
  bool written(uint64_t number);
  /// When poll() may have something to send, if nothing else happens before.
  [[nodiscard]] TimeNs wake_at() const;

  /// Rises when everything starts over: what was written for an earlier attempt is to be thrown away.
  [[nodiscard]] uint64_t attempt() const { return attempt_; }
  /// All files are there, with every byte written.
  [[nodiscard]] bool complete() const { return snapshot_ != 0 && files_complete_ == files_.size(); }
  /// The first piece has come.
  [[nodiscard]] bool begun() const { return snapshot_ != 0; }
  /// The last entry that the snapshot has, once it has begun().
  [[nodiscard]] EntryId end() const { return end_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Of this attempt. Looks at every file.
  [[nodiscard]] Progress progress() const;

 private:
  struct File {
    bool known = false;
    bool asked_first = false;
    std::string name;
    uint64_t bytes = 0;
    uint64_t asked = 0;    // up to here
    uint64_t written = 0;  // so many bytes
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
  const uint32_t table_;
  const uint32_t shard_;

  uint64_t attempt_ = 1;
  uint64_t snapshot_ = 0;  // 0: not begun
  EntryId end_;
  std::vector<File> files_;
  std::set<std::string, std::less<>> names_;
  size_t files_complete_ = 0;
  uint32_t next_file_ = 0;  // before it everything has been asked for
  std::map<uint64_t, UnderWay> under_way_;
  std::deque<Piece> again_;
  uint64_t last_number_ = 0;
  bool waits_ = false;  // for what is under way: there is nothing else to ask for

  int64_t balance_bytes_;
  TimeNs refilled_ns_;
  TimeNs paused_until_ns_;
  DurationNs pause_ns_;
  uint32_t damaged_in_a_row_ = 0;
  Counters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_PULL_H_
