#include "kvstore/node/memory_budget.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kvstore/node/size_text.h"

namespace skua::kv {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

constexpr size_t kProgramBytes = 48 * kMiB;
constexpr size_t kQueueBytes = 12 * kMiB;  // per worker; nearly all of it is the applier's ring

constexpr size_t kTierMin = 16 * kMiB;
constexpr size_t kCacheMin = 16 * kMiB;
constexpr size_t kMessagesMin = 16 * kMiB;
constexpr size_t kLogGroupMin = 4 * kMiB;
constexpr size_t kLogGroupMax = 32 * kMiB;

constexpr size_t kGivenCacheMin = 8 * kMiB;
constexpr size_t kGivenMemtablesMin = 4 * kMiB;

/// Resizing the cache keeps resident memory between these shares of the budget, where possible. Unit: 1/64 of the
/// budget.
constexpr size_t kResidentLow = 61;
constexpr size_t kResidentHigh = 63;

absl::Status check_given(const MemoryWishes& wishes) {
  for (const auto& [option, given, least] : {std::tuple("block-cache", wishes.cache, kGivenCacheMin),
                                             std::tuple("write-buffer", wishes.memtables, kGivenMemtablesMin),
                                             std::tuple("message-memory", wishes.messages, kMessagesMin)}) {
    if (given == 0 || given >= least) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", option, " is ", size_text(given), "; it must be at least ",
                                                   least / kMiB, " MiB, or 0 for a share of --memory"));
  }
  return absl::OkStatus();
}

absl::Status too_little(const MemoryWishes& wishes, size_t minimum) {
  std::string text = absl::StrCat("--memory is ", size_text(wishes.node), ", but a node with ", wishes.workers,
                                  wishes.workers == 1 ? " worker" : " workers");
  if (wishes.cache != 0) absl::StrAppend(&text, ", --block-cache ", size_text(wishes.cache));
  if (wishes.messages != 0) absl::StrAppend(&text, ", --message-memory ", size_text(wishes.messages), " per worker");
  absl::StrAppend(&text, " needs at least ", (minimum + kMiB - 1) / kMiB, " MiB: give it that, or fewer --workers");
  return absl::InvalidArgumentError(text);
}

absl::Status given_too_much(const MemoryWishes& wishes) {
  const bool cache = wishes.cache > wishes.node;
  return absl::InvalidArgumentError(absl::StrCat(
      cache ? "--block-cache is " : "--message-memory is ", size_text(cache ? wishes.cache : wishes.messages),
      cache ? "" : " for each worker", ", which is a part of --memory, and that is ", size_text(wishes.node),
      ": give less, or more --memory"));
}

}  // namespace

absl::StatusOr<MemoryBudget> split_memory(const MemoryWishes& wishes) {
  if (absl::Status status = check_given(wishes); !status.ok()) return status;
  const size_t workers = std::max(wishes.workers, uint32_t{1});
  if (wishes.cache > wishes.node || wishes.messages > wishes.node / workers) return given_too_much(wishes);
  MemoryBudget out{.node = wishes.node,
                   .program = kProgramBytes + workers * kQueueBytes,
                   .tier = workers * kTierMin,
                   .cache = wishes.cache != 0 ? wishes.cache : kCacheMin,
                   .messages = wishes.messages != 0 ? wishes.messages : kMessagesMin,
                   .log_group = kLogGroupMin};
  const size_t minimum = out.program + out.tier + out.cache + workers * (out.messages + out.log_group);
  if (wishes.node < minimum) return too_little(wishes, minimum);

  const size_t surplus = wishes.node - minimum;
  if (wishes.cache == 0) out.cache += surplus / 8 * 3;
  if (wishes.messages == 0) out.messages += surplus / 8 / workers;
  out.log_group = std::min(out.log_group + surplus / 32 / workers, kLogGroupMax);
  out.tier = wishes.node - out.program - out.cache - workers * (out.messages + out.log_group);
  out.memtables = wishes.memtables != 0 ? wishes.memtables : out.cache / 2;
  if (out.memtables > out.cache / 4 * 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("--write-buffer is ", out.memtables / kMiB,
                     " MiB, but it is a part of --block-cache, at most three quarters of ", out.cache / kMiB, " MiB"));
  }
  out.cache_min = wishes.cache != 0 ? out.cache : std::max(out.cache / 2, out.memtables / 4 * 5);
  out.cache_max = wishes.cache != 0 ? out.cache : wishes.node - out.program - out.tier;
  return out;
}

size_t next_cache_bytes(const MemoryBudget& budget, size_t resident, size_t cache) {
  const size_t low = budget.node / 64 * kResidentLow;
  const size_t high = budget.node / 64 * kResidentHigh;
  if (resident > high) {
    const size_t excess = resident - high;
    cache = cache > excess ? cache - excess : 0;
  } else if (resident < low) {
    cache += (low - resident) / 2;
  }
  return std::clamp(cache, budget.cache_min, budget.cache_max);
}

}  // namespace skua::kv
