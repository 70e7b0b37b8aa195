#include "kvstore/ctl/line_splitter.h"

namespace skua::kv::ctl {

void LineSplitter::add(std::string_view block) {
  bytes_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  bytes_.append(block);
}

std::optional<std::string_view> LineSplitter::next() {
  if (too_long_) return std::nullopt;
  const size_t found = bytes_.find('\n', searched_);
  const bool is_whole = found != std::string::npos;
  const size_t end = is_whole ? found : bytes_.size();
  searched_ = end;
  too_long_ = end - begin_ > line_bytes_max_;
  if (too_long_ || (!is_whole && (!ended_ || end == begin_))) return std::nullopt;
  const std::string_view line = std::string_view(bytes_).substr(begin_, end - begin_);
  begin_ = is_whole ? end + 1 : end;
  searched_ = begin_;
  return line;
}

}  // namespace skua::kv::ctl
