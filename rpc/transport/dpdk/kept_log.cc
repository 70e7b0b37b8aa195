#include "rpc/transport/dpdk/kept_log.h"

#include <utility>

#include "rpc/base/check.h"

namespace skua::rpc::dpdk {

KeptLog::KeptLog()
    : stream_(fopencookie(this, "w", {.read = nullptr, .write = &write, .seek = nullptr, .close = nullptr})) {
  SKUA_CHECK(stream_ != nullptr, "no memory for a log stream");
}

KeptLog::~KeptLog() {
  std::fclose(stream_);
}

std::string KeptLog::take() {
  std::fflush(stream_);
  const std::lock_guard lock(mutex_);
  return std::exchange(text_, {});
}

ssize_t KeptLog::write(void* log, const char* text, size_t bytes) {
  auto* self = static_cast<KeptLog*>(log);
  const std::lock_guard lock(self->mutex_);
  self->text_.append(text, bytes);
  // More than one line goes at once, so that not each line moves the text.
  if (self->text_.size() > kBytesMax) self->text_.erase(0, self->text_.size() - kBytesMax / 2);
  return static_cast<ssize_t>(bytes);
}

}  // namespace skua::rpc::dpdk
