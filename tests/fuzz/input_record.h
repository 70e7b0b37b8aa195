// InputRecord: the inputs of one world, in a file that outlives the process, so that a failure which needs those before
// it can be repeated.
//
//    file:  u64 bytes used | u32 size, the input | u32 size, the input | ...      zero-filled, mapped, kCapacity long
#ifndef SKUA_TESTS_FUZZ_INPUT_RECORD_H_
#define SKUA_TESTS_FUZZ_INPUT_RECORD_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"

namespace skua::kv::fuzz {

class InputRecord {
 public:
  static constexpr size_t kCapacity = size_t{64} << 20;

  explicit InputRecord(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    SKUA_CHECK(file >= 0 && ::ftruncate(file, kCapacity) == 0, "SKUA_FUZZ_RECORD names a file that cannot be made");
    void* const memory = ::mmap(nullptr, kCapacity, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    SKUA_CHECK(memory != MAP_FAILED, "SKUA_FUZZ_RECORD names a file that cannot be mapped");
    ::close(file);
    memory_ = static_cast<std::byte*>(memory);
  }

  /// A new world begins.
  void clear() { set_used(0); }
  void add(ByteSpan input) {
    if (used_ + sizeof(uint32_t) + input.size() > kCapacity - sizeof(uint64_t)) return;
    std::byte* const to = memory_ + sizeof(uint64_t) + used_;
    store_le(to, static_cast<uint32_t>(input.size()));
    copy_bytes(to + sizeof(uint32_t), input);
    set_used(used_ + sizeof(uint32_t) + input.size());
  }

  static std::vector<std::string> read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    SKUA_CHECK(bytes.size() >= sizeof(uint64_t), "SKUA_FUZZ_REPLAY names no record");
    const auto* const from = reinterpret_cast<const std::byte*>(bytes.data());
    const size_t end = sizeof(uint64_t) + load_le<uint64_t>(from);
    std::vector<std::string> out;
    for (size_t at = sizeof(uint64_t); at + sizeof(uint32_t) <= end && end <= bytes.size();) {
      const auto size = load_le<uint32_t>(from + at);
      out.push_back(bytes.substr(at + sizeof(uint32_t), size));
      at += sizeof(uint32_t) + size;
    }
    return out;
  }

 private:
  void set_used(size_t bytes) {
    used_ = bytes;
    store_le(memory_, uint64_t{bytes});
  }

  std::byte* memory_ = nullptr;
  size_t used_ = 0;
};

}  // namespace skua::kv::fuzz

#endif  // SKUA_TESTS_FUZZ_INPUT_RECORD_H_
