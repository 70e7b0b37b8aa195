// CompletionChannel: what an endpoint sleeps on, for all its completion queues: datagrams' and connected queue pairs'.
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

/// Thread: the transport's. Outlives its queues.
class CompletionChannel {
 public:
  static absl::StatusOr<std::unique_ptr<CompletionChannel>> create(Device& device);
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  /// A queue for `entries` completions, given back to destroy().
  absl::StatusOr<ibv_cq*> make_queue(size_t entries);
  void destroy(ibv_cq* queue);

  /// Readable after a completion that came after arm(). What came before raises no event: look into the queues.
  [[nodiscard]] int fd() const { return channel_->fd; }
  /// False: the device does not take the request.
  bool arm();
  /// Takes note of what made fd() readable.
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
