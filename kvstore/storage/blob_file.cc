#include "kvstore/storage/blob_file.h"

#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/bytes.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {
namespace {

constexpr uint32_t kMagic = 2395959;
constexpr uint64_t kHeaderBytes = 30;
constexpr uint64_t kFooterBytes = 32;
constexpr size_t kRecordHeaderBytes = 32;
constexpr size_t kLengthsBytes = 24;
/// No key or value of a record is larger. The 4096 are for what stands before a stored value.
constexpr uint64_t kRecordBytesMax = kKeyBytesMax + kValueBytesMax + 4096;

uint32_t mask(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

absl::Status damaged(const std::string& path, uint64_t offset, const char* what) {
  return absl::DataLossError(absl::StrCat(what, " in ", path, " offset ", offset));
}

class Checker {
 public:
  explicit Checker(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {}

  absl::Status run() {
    if (!file_) return files::io_error("opening", path_, std::make_error_code(std::errc::io_error));
    const auto size = static_cast<uint64_t>(file_.tellg());
    if (size < kHeaderBytes + kFooterBytes || !read(0, kHeaderBytes) || load_le<uint32_t>(bytes_.data()) != kMagic) {
      return damaged(path_, 0, "blob file's header damaged");
    }
    const uint64_t end = size - kFooterBytes;
    if (!read(end, kFooterBytes) || load_le<uint32_t>(bytes_.data()) != kMagic ||
        mask(crc32c(ByteSpan(bytes_).first(kFooterBytes - sizeof(uint32_t)))) !=
            load_le<uint32_t>(bytes_.data() + kFooterBytes - sizeof(uint32_t))) {
      return damaged(path_, end, "blob file's footer damaged");
    }
    for (uint64_t offset = kHeaderBytes; offset < end;) {
      if (absl::Status checked = check_record(offset, end); !checked.ok()) return checked;
    }
    return absl::OkStatus();
  }

 private:
  bool read(uint64_t offset, uint64_t size) {
    bytes_.resize(size);
    file_.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(
        file_.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size())));
  }

  /// Checks the record at `offset`, and moves `offset` behind it.
  absl::Status check_record(uint64_t& offset, uint64_t end) {
    if (end - offset < kRecordHeaderBytes || !read(offset, kRecordHeaderBytes)) {
      return damaged(path_, offset, "blob record cut short");
    }
    const auto key_bytes = load_le<uint64_t>(bytes_.data());
    const auto value_bytes = load_le<uint64_t>(bytes_.data() + sizeof(uint64_t));
    const auto header_crc = load_le<uint32_t>(bytes_.data() + kLengthsBytes);
    const auto blob_crc = load_le<uint32_t>(bytes_.data() + kLengthsBytes + sizeof(uint32_t));
    const bool sound = mask(crc32c(ByteSpan(bytes_).first(kLengthsBytes))) == header_crc &&
                       key_bytes <= kRecordBytesMax && value_bytes <= kRecordBytesMax &&
                       key_bytes + value_bytes <= end - offset - kRecordHeaderBytes;
    if (!sound) return damaged(path_, offset, "blob record's header damaged");
    if (!read(offset + kRecordHeaderBytes, key_bytes + value_bytes) || mask(crc32c(bytes_)) != blob_crc) {
      return damaged(path_, offset, "blob checksum mismatch");
    }
    offset += kRecordHeaderBytes + key_bytes + value_bytes;
    return absl::OkStatus();
  }

  const std::string& path_;
  std::ifstream file_;
  std::vector<std::byte> bytes_;
};

}  // namespace

absl::Status check_blob_file(const std::string& path) {
  return Checker(path).run();
}

}  // namespace skua::kv
