// TxCompletions: packets whose memory is no longer read. Packets of the running tx_burst are marked `done`; tokens of
// older packets are kept for reap().
#ifndef SKUA_RPC_TRANSPORT_TCP_TX_COMPLETIONS_H_
#define SKUA_RPC_TRANSPORT_TCP_TX_COMPLETIONS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rpc/transport/transport.h"

namespace skua::rpc::tcp {

/// Thread: the transport's.
class TxCompletions {
 public:
  void begin_burst(std::span<TxPacket> packets) {
    packets_ = packets;
    ++burst_;
  }
  void end_burst() { packets_ = {}; }
  [[nodiscard]] uint32_t burst() const { return burst_; }

  /// Completes the packet at `index` of burst `burst`.
  void complete(TxToken token, uint32_t burst, uint8_t index) {
    if (burst == burst_ && index < packets_.size()) {
      packets_[index].done = true;
    } else {
      complete(token);
    }
  }
  /// Completes a packet of an earlier burst.
  void complete(TxToken token) {
    if (token != kNoToken) tokens_.push_back(token);
  }

  size_t reap(std::span<TxToken> tokens) {
    const size_t count = std::min(tokens.size(), tokens_.size() - reaped_);
    std::copy_n(tokens_.begin() + static_cast<ptrdiff_t>(reaped_), count, tokens.begin());
    reaped_ += count;
    if (reaped_ == tokens_.size()) {
      tokens_.clear();
      reaped_ = 0;
    }
    return count;
  }

 private:
  std::span<TxPacket> packets_;
  uint32_t burst_ = 0;
  std::vector<TxToken> tokens_;
  size_t reaped_ = 0;
};

}  // namespace skua::rpc::tcp

#endif  // SKUA_RPC_TRANSPORT_TCP_TX_COMPLETIONS_H_
