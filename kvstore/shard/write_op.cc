#include "kvstore/shard/write_op.h"

#include "kvstore/shard/batch_work.h"

namespace skua::kv {
namespace {

/// The scratch memory of a write that is larger than this goes back to the heap after its use.
constexpr size_t kScratchBytesKept = size_t{64} << 10;

}  // namespace

WriteOp::WriteOp() : LogOp(Kind::kWrite) {}
WriteOp::~WriteOp() = default;

void WriteOp::reset(Shard& owner) {
  shard = &owner;
  behind = repetition = nullptr;
  result = {};
  results.clear();
  not_applied = from_record = is_unchanged = false;
  achieved = Durability::kDefault;
  why.clear();
  counted_bytes = mutation.key.size() + mutation.value.size();
  for (const Mutation& each : batch) counted_bytes += each.key.size() + each.value.size();
}

void WriteOp::answer(KvStatus status, std::string_view text) {
  state = State::kAnswered;
  result = {status, 0};
  results.clear();
  not_applied = false;
  why = text;
}

void WriteOp::drop_scratch() {
  if (scratch.capacity() > kScratchBytesKept) std::string().swap(scratch);
  if (work != nullptr) work->release(kScratchBytesKept);
}

std::span<const HashedEffect> WriteOp::effects() const {
  return is_batch() ? work->effects() : std::span(&effect, 1);
}

size_t WriteOp::payload_bytes() const {
  if (is_batch()) return work->payload().size();
  return (id.client_id != 0 ? kCompletionHeadBytes : 0) + encoded_bytes(effect);
}

Completion WriteOp::completion() const {
  return {id, result.value, is_batch() ? work->results() : ByteSpan{}};
}

std::array<ByteSpan, 3> WriteOp::encode_record() {
  if (is_batch()) return {work->payload(), {}, {}};
  ByteWriter writer(head);
  if (id.client_id != 0) encode_completion_head(completion(), writer);
  encode_effect_head(effect, writer);
  return {writer.written(), as_byte_span(effect.key), effect.value.value_or(ByteSpan{})};
}

}  // namespace skua::kv
