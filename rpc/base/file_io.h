// Reads and writes of files that go on after an interrupt or after a part of the bytes.
#ifndef SKUA_RPC_BASE_FILE_IO_H_
#define SKUA_RPC_BASE_FILE_IO_H_

#include <sys/types.h>

#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua {

/// Reads from `offset` on until `into` is full or the file ends. Returns how many bytes it read, or -1 with errno set.
[[nodiscard]] ssize_t read_at(int fd, uint64_t offset, MutableByteSpan into);

/// Writes all bytes at `offset`. Returns 0, or the errno; then a part may be written.
[[nodiscard]] int write_at(int fd, uint64_t offset, ByteSpan bytes);

}  // namespace skua

#endif  // SKUA_RPC_BASE_FILE_IO_H_
