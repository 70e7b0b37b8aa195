// KeptLog: a stream that a library logs to, of which the newest part is kept until somebody takes it.
#ifndef SKUA_RPC_TRANSPORT_DPDK_KEPT_LOG_H_
#define SKUA_RPC_TRANSPORT_DPDK_KEPT_LOG_H_

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>

namespace skua::rpc::dpdk {

/// Thread: any.
class KeptLog {
 public:
  /// What is kept at most; older text goes. A driver may log for as long as the process lives.
  static constexpr size_t kBytesMax = 64 * 1024;

  KeptLog();
  ~KeptLog();
  KeptLog(const KeptLog&) = delete;
  KeptLog& operator=(const KeptLog&) = delete;

  /// To write to, for as long as the log lives.
  [[nodiscard]] FILE* stream() const { return stream_; }
  /// What was written since the last call, as far as it is kept.
  [[nodiscard]] std::string take();

 private:
  static ssize_t write(void* log, const char* text, size_t bytes);

  FILE* stream_;
  std::mutex mutex_;
  std::string text_;  // protected by mutex_
};

}  // namespace skua::rpc::dpdk

#endif  // SKUA_RPC_TRANSPORT_DPDK_KEPT_LOG_H_
