// PieceRun: pieces of one message in a row, none of which has come yet, and where their bytes go.
//
//    message   | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |      a burst with 3, 4, 5 of it: one look for the sslot,
//    came        x   x   x  |<- run ->|               one mark for all of them, one sample of the network's
//                                                     delay, one acknowledgement
//
// Session::join() says whether a packet begins one, and changes nothing, so that it may be asked before the packet is
// known to be intact. The bytes may be copied before that, too: what is not marked as come is written over when it
// comes again. Session::take_run() marks what was copied and found intact.
#ifndef SKUA_RPC_PROTOCOL_PIECE_RUN_H_
#define SKUA_RPC_PROTOCOL_PIECE_RUN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace skua::rpc {

struct PieceRun {
  uint32_t first = 0;
  /// Pieces that it can have, at least one.
  uint32_t count_max = 0;
  /// Of each piece but the message's last.
  uint32_t piece_bytes = 0;
  uint32_t message_bytes = 0;
  /// The whole message's place.
  std::byte* message = nullptr;

  /// Of the i-th piece of the run.
  [[nodiscard]] size_t offset(uint32_t i) const { return size_t{first + i} * piece_bytes; }
  [[nodiscard]] std::byte* place(uint32_t i) const { return message + offset(i); }
  [[nodiscard]] size_t bytes(uint32_t i) const { return std::min<size_t>(piece_bytes, message_bytes - offset(i)); }
  /// Of the first `count` pieces.
  [[nodiscard]] size_t bytes_of(uint32_t count) const {
    return std::min<size_t>(size_t{count} * piece_bytes, message_bytes - offset(0));
  }
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_PIECE_RUN_H_
