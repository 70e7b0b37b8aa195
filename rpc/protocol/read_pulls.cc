#include "rpc/protocol/read_pulls.h"

#include <algorithm>

#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

/// Cookies leave the highest bit to the endpoint's other operations.
constexpr uint32_t kGenerationMask = 0x7fffffff;

}  // namespace

ReadPulls::~ReadPulls() {
  SKUA_CHECK(in_flight_ == 0, "the device writes to memory of a message that is being fetched");
}

void ReadPulls::start(uint32_t peer, const MessageOwner& owner, const ReadList& list, std::byte* to, Lease&& message) {
  if (free_.empty()) {
    pulls_.push_back(std::make_unique<Pull>());
    pulls_.back()->index = static_cast<uint32_t>(pulls_.size() - 1);
    free_.push_back(pulls_.back()->index);
  }
  Pull& pull = *pulls_[free_.back()];
  free_.pop_back();
  ++active_count_;
  pull.peer = peer;
  pull.connection = list.connection;
  pull.owner = owner;
  pull.message = std::move(message);
  pull.to = to + list.head.size();
  pull.span_count = list.span_count;
  pull.spans = list.spans;
  pull.span = pull.offset = pull.in_flight = 0;
  pull.active = true;
  pull.failed = false;
  turn_.push_back(pull);
}

bool ReadPulls::next(Read& out) {
  if (in_flight_ >= limits_.reads_max || turn_.empty()) return false;
  Pull& pull = *turn_.pop_front();
  const RemoteSpan& span = pull.spans[pull.span];
  const uint32_t bytes = std::min(limits_.chunk_bytes, span.bytes - pull.offset);
  out.peer = pull.peer;
  out.connection = pull.connection;
  out.to = pull.to;
  out.from = {span.address + pull.offset, span.key, bytes};
  out.cookie = uint64_t{pull.generation} << 32 | pull.index;
  pull.to += bytes;
  pull.offset += bytes;
  if (pull.offset == span.bytes) {
    ++pull.span;
    pull.offset = 0;
  }
  ++pull.in_flight;
  ++in_flight_;
  if (pull.span < pull.span_count) turn_.push_back(pull);
  return true;
}

void ReadPulls::take_back(const Read& read) {
  Pull& pull = *pulls_[static_cast<uint32_t>(read.cookie)];
  --pull.in_flight;
  --in_flight_;
  pull.to -= read.from.bytes;
  if (pull.offset == 0) {
    --pull.span;
    pull.offset = pull.spans[pull.span].bytes;
  }
  pull.offset -= read.from.bytes;
  pull.hook.unlink();
  turn_.push_front(pull);
}

std::optional<ReadPulls::Finished> ReadPulls::on_completion(uint64_t cookie, bool ok) {
  const auto index = static_cast<uint32_t>(cookie);
  if (index >= pulls_.size()) return std::nullopt;
  Pull& pull = *pulls_[index];
  if (!pull.active || pull.generation != cookie >> 32 || pull.in_flight == 0) return std::nullopt;
  --pull.in_flight;
  --in_flight_;
  if (!ok) {
    pull.failed = true;
    pull.hook.unlink();
  }
  return finish_if_done(pull);
}

std::optional<ReadPulls::Finished> ReadPulls::finish_if_done(Pull& pull) {
  const bool asked_for_all = pull.failed || pull.span == pull.span_count;
  if (!asked_for_all || pull.in_flight > 0) return std::nullopt;
  pull.active = false;
  pull.generation = (pull.generation + 1) & kGenerationMask;
  --active_count_;
  free_.push_back(pull.index);
  return Finished{pull.owner, !pull.failed, std::move(pull.message)};
}

}  // namespace skua::rpc
