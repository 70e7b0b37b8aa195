// Bytes gathered for a connection: commands are appended, and whatever a send() took is marked off.
//
//   | sent | unsent              | room
//
// The memory is kept; it is moved to the front only when all is sent, or when what lies before it has grown large.
#ifndef SKUA_YCSB_BINDINGS_SEND_BUFFER_H_
#define SKUA_YCSB_BINDINGS_SEND_BUFFER_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace skua::ycsb {

class SendBuffer {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }

  /// What is not sent yet.
  [[nodiscard]] std::string_view unsent() const { return std::string_view(bytes_).substr(sent_); }
  void mark_sent(size_t count) {
    sent_ += count;
    if (sent_ == bytes_.size()) {
      bytes_.clear();
      sent_ = 0;
    } else if (sent_ > kKeptMax) {
      bytes_.erase(0, sent_);
      sent_ = 0;
    }
  }

 private:
  static constexpr size_t kKeptMax = size_t{1} << 20;

  std::string bytes_;
  size_t sent_ = 0;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_BINDINGS_SEND_BUFFER_H_
