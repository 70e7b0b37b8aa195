// How long a field's value is: constant, uniform, zipfian (short ones favoured) or drawn from a
// histogram.
//
// A histogram's text is YCSB's:
//
//   BlockSize<TAB>block         one line
//   bucket<TAB>weight           for bucket = 0, 1, 2 ...
//
// and bucket b stands for values of (b + 1) * block bytes.
#ifndef SKUA_YCSB_CORE_FIELD_LENGTH_H_
#define SKUA_YCSB_CORE_FIELD_LENGTH_H_

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/rng.h"
#include "ycsb/core/zipfian.h"

namespace skua::ycsb {

class FieldLength {
 public:
  [[nodiscard]] static FieldLength constant(uint64_t length) { return FieldLength(length); }
  /// low <= high, both ends included.
  [[nodiscard]] static FieldLength uniform(uint64_t low, uint64_t high) { return FieldLength(Uniform{low, high}); }
  [[nodiscard]] static FieldLength zipfian(uint64_t low, uint64_t high) {
    return FieldLength(Skewed{low, Zipfian(high - low + 1, kZipfianTheta)});
  }
  /// Errors: INVALID_ARGUMENT with the line that is wrong.
  [[nodiscard]] static absl::StatusOr<FieldLength> histogram(std::string_view text);

  [[nodiscard]] uint64_t next(Rng& rng) const;

 private:
  struct Uniform {
    uint64_t low, high;
  };
  struct Skewed {
    uint64_t low;
    Zipfian zipfian;
  };
  struct Weighted {
    uint64_t block;
    std::vector<uint64_t> running_weights;
  };
  using Kind = std::variant<uint64_t, Uniform, Skewed, Weighted>;

  explicit FieldLength(Kind kind) : kind_(std::move(kind)) {}

  Kind kind_;
};

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_FIELD_LENGTH_H_
