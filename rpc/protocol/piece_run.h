// PieceRun: consecutive pieces of one message that have not come before, and where their bytes go.
//
//    message   | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |      a burst with 3, 4, 5 of it: one look for the sslot,
//    came        x   x   x  |<- run ->|               one mark for all of them, one sample of the network's
//                                                     delay, one acknowledgement
//
// Session::join() says whether a packet may begin a run. It changes nothing, so it may be called before the packet's
// checksum is verified. The bytes may be copied before that, too: bytes of a piece that is not marked as received are
// overwritten when the piece comes again. Session::take_run() marks the pieces that were copied and found intact.
#ifndef SKUA_RPC_PROTOCOL_PIECE_RUN_H_
#define SKUA_RPC_PROTOCOL_PIECE_RUN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace skua::rpc {

struct PieceRun {
  uint32_t first = 0;
  /// The most pieces that the run can have; at least one.
  uint32_t count_max = 0;
  /// Size of each piece; the message's last piece may be smaller.
  uint32_t piece_bytes = 0;
  uint32_t message_bytes = 0;
  /// Where the whole message begins.
  std::byte* message = nullptr;

  /// For the i-th piece of the run.
  [[nodiscard]] size_t offset(uint32_t i) const { return size_t{first + i} * piece_bytes; }
  [[nodiscard]] std::byte* place(uint32_t i) const { return message + offset(i); }
  [[nodiscard]] size_t bytes(uint32_t i) const { return std::min<size_t>(piece_bytes, message_bytes - offset(i)); }
  /// Size of the first `count` pieces of the run together.
  [[nodiscard]] size_t bytes_of(uint32_t count) const {
    return std::min<size_t>(size_t{count} * piece_bytes, message_bytes - offset(0));
  }
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PIECE_RUN_H_
