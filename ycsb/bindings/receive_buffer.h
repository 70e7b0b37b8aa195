// Bytes received from a connection and not parsed yet.
//
//   | parsed | unparsed            | room
//
// A parser takes complete pieces off the front; what is left is the beginning of one piece, and moves to the front when
// more is received. The memory grows to the largest piece and is kept.
#ifndef SKUA_YCSB_BINDINGS_RECEIVE_BUFFER_H_
#define SKUA_YCSB_BINDINGS_RECEIVE_BUFFER_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace skua::ycsb {

class ReceiveBuffer {
 public:
  ReceiveBuffer() : bytes_(kFirstBytes) {}

  /// Where to receive into; never empty if nothing unparsed is as large as `wanted`. Invalidates unparsed().
  [[nodiscard]] std::span<char> room(size_t wanted) {
    if (begin_ != 0) {
      std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (bytes_.size() < wanted) bytes_.resize(wanted);
    return std::span(bytes_).subspan(end_);
  }
  /// So many bytes of room() have been filled.
  void received(size_t count) { end_ += count; }

  [[nodiscard]] std::string_view unparsed() const { return {bytes_.data() + begin_, end_ - begin_}; }
  void consume(size_t count) { begin_ += count; }

 private:
  static constexpr size_t kFirstBytes = size_t{64} << 10;

  std::vector<char> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_RECEIVE_BUFFER_H_
