// A Watch on etcd: one stream, read when somebody asks, opened again where it stopped.
//
//    kClosed ──> kOpening ──> kAsking ──> kReading ──(events)──> kIdle ──next()──> kReading ...
//       ^            │           │            │
//       └─────────── kFinishing <┴────────────┘   the stream broke: pause, then the next member, from the revision that
//                                                 is missing
//
// One operation of gRPC is on its way at a time, and none while arrived events wait to be taken: a slow reader costs
// one message here, and etcd keeps the rest.
//
// etcd's streams begin one revision early and drop it, because etcd may have forgotten the deletions *at* the revision
// that it was compacted to.
#ifndef SKUA_CONTROL_STORE_ETCD_WATCH_H_
#define SKUA_CONTROL_STORE_ETCD_WATCH_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "control/store/etcd_client.h"
#include "control/store/metadata_store.h"

namespace skua::control {

class EtcdWatch final : public Watch {
 public:
  /// `range_start` is a prefix of etcd's keys; `strip` bytes of each are not shown. The client must outlive the watch.
  EtcdWatch(EtcdClient& client, std::string range_start, size_t strip, uint64_t first_revision);
  ~EtcdWatch() override;

  absl::StatusOr<WatchBatch> next(DurationNs timeout_ns) override;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  using WallTime = std::chrono::system_clock::time_point;
  enum class State { kClosed, kOpening, kAsking, kReading, kIdle, kFinishing };
  struct Stream {
    EtcdClient::Member& member;
    grpc::ClientContext context;
    etcdserverpb::WatchResponse response;
    grpc::Status ended;
    std::unique_ptr<grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>> calls;
  };

  /// Does one thing that brings events nearer; false when the time was up first.
  bool advance(WallTime deadline);
  void open();
  void ask();
  void finish();
  void closed();
  void take_response();
  WatchBatch take_events();

  EtcdClient& client_;
  const std::string range_start_;
  const size_t strip_;

  grpc::CompletionQueue queue_;
  std::unique_ptr<Stream> stream_;
  State state_ = State::kClosed;
  bool live_ = false;  // the stream has been opened and is not known to be broken
  WallTime open_after_{};
  absl::Status trouble_;  // why the last stream ended
  absl::Status final_;    // what every next() says from now on

  uint64_t next_;                   // first revision that was not handed out
  uint64_t complete_;               // events of all revisions up to here are in arrived_, or were handed out
  std::deque<WatchEvent> arrived_;  // in order of revision
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_ETCD_WATCH_H_
