// CompletionChannel: the file descriptor that an endpoint sleeps on, for all its completion queues: datagrams and its
// own connected queue pairs.
//
//    UdQueue: sent, received --+
//                              +-- one file descriptor      arm(), look into the queues, poll(fd), disarm()
//    RcConnections: done ------+
#ifndef SKUA_RPC_TRANSPORT_VERBS_COMPLETION_CHANNEL_H_
#define SKUA_RPC_TRANSPORT_VERBS_COMPLETION_CHANNEL_H_

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/transport/verbs/device.h"

namespace skua::rpc::verbs {

/// Must outlive its queues (checked). Thread: the transport's.
class CompletionChannel {
 public:
  static absl::StatusOr<std::unique_ptr<CompletionChannel>> create(Device& device);
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  /// Makes a queue for `entries` completions. The caller gives it back by destroy().
  absl::StatusOr<ibv_cq*> make_queue(size_t entries);
  void destroy(ibv_cq* queue);

  /// Readable after a completion that arrived after arm(). Earlier completions raise no event, so look into the queues
  /// after arm().
  [[nodiscard]] int fd() const { return channel_->fd; }
  /// False: the device refused the request.
  bool arm();
  /// Call when fd() was readable: takes the events, so that the next arm() works.
  void disarm();

 private:
  struct Queue {
    ibv_cq* queue = nullptr;
    unsigned events = 0;  // not acknowledged yet
  };

  explicit CompletionChannel(Device& device) : device_(device) {}

  Device& device_;
  ibv_comp_channel* channel_ = nullptr;
  std::vector<Queue> queues_;
  bool armed_ = false;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_COMPLETION_CHANNEL_H_
