// The results of batches as completions hold them, one after the other.
#ifndef SKUA_TESTS_KVSTORE_CODEC_BATCH_RESULTS_H_
#define SKUA_TESTS_KVSTORE_CODEC_BATCH_RESULTS_H_

#include <array>
#include <span>
#include <string>

#include "kvstore/codec/effect.h"

namespace skua::kv {

inline void append_batch_result(const MutationResult& result, std::string& out) {
  std::array<std::byte, kBatchResultBytes> bytes;
  encode_batch_results(std::span(&result, 1), bytes);
  out.append(as_string_view(bytes));
}

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_CODEC_BATCH_RESULTS_H_
