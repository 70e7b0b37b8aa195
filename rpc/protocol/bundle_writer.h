// BundleWriter: the bundles that an endpoint is writing, one for each association at most. Records are written straight
// into the transport's frames.
//
//    room()/write()   opens a frame if there is none    | head | record | record | ...       |
//                                                        ^begin                    ^at        ^end
//    seal()           the frame is full, or its records are wanted now: writes the head, hands the frame over
//    send_all()       seals all of them, and flushes
//
// Nothing waits for a bundle to fill: whoever writes says when bundles leave (small_calls.h, the endpoint's turn).
//
// This is a template over its driver, so that no call between an application and the wire is virtual:
//
//   bool open_frame(Association&)                sets begin, end, cookie: room for a bundle; false: no frame available
//   void send_frame(Association&, bytes)         bytes: how many were written, may be 0. flush() follows
//   void flush() · now_ns() · integrity()
#ifndef SKUA_RPC_PROTOCOL_BUNDLE_WRITER_H_
#define SKUA_RPC_PROTOCOL_BUNDLE_WRITER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/protocol/association.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {

/// Thread: the driver's. `driver` outlives it, and so do associations that have a bundle: finish() or discard() come
/// before the end of one.
template <typename Driver>
class BundleWriter {
 public:
  explicit BundleWriter(Driver& driver) : driver_(driver) {}

  /// Makes room for a record of `bytes`, head included, in the association's bundle. Null: there is no room.
  [[gnu::always_inline]] inline std::byte* room(Association& association, uint32_t bytes);
  /// Makes room for a record and writes its head. Returns where its bytes go. Null: there is no room.
  std::byte* write(Association& association, const RecordHead& head);
  /// The association's bundle is finished: it leaves with the next flush.
  void seal(Association& association);
  /// Sends everything that was written.
  void send_all();
  /// Sends what was written for the association, which ends.
  void finish(Association& association);
  /// Drops what was written for the association.
  void discard(Association& association);
  [[nodiscard]] bool empty() const { return open_.empty(); }

 private:
  bool next_bundle(Association& association, uint32_t bytes);

  Driver& driver_;
  std::vector<Association*> open_;  // those whose bundle is being written
};

template <typename Driver>
std::byte* BundleWriter<Driver>::room(Association& a, uint32_t bytes) {
  if (static_cast<size_t>(a.end - a.at) < bytes) [[unlikely]] {
    if (!next_bundle(a, bytes)) return nullptr;
  }
  std::byte* at = a.at;
  a.at += bytes;
  ++a.records;
  return at;
}

template <typename Driver>
[[gnu::noinline]] bool BundleWriter<Driver>::next_bundle(Association& a, uint32_t bytes) {
  if (bytes + kBundleHeadBytes > a.bundle_bytes_max) return false;
  if (a.begin != nullptr) seal(a);
  if (!driver_.open_frame(a)) return false;
  a.end = std::min(a.end, a.begin + a.bundle_bytes_max);
  a.at = a.begin + kBundleHeadBytes;
  a.records = 0;
  if (!a.is_open) {
    a.is_open = true;
    open_.push_back(&a);
  }
  return static_cast<size_t>(a.end - a.at) >= bytes;
}

template <typename Driver>
void BundleWriter<Driver>::seal(Association& a) {
  if (a.records == 0) [[unlikely]] {
    driver_.send_frame(a, 0);
    a.begin = a.at = a.end = nullptr;
    return;
  }
  const Ticks now = to_ticks(driver_.now_ns());
  const BundleHead head{.flags = a.was_heard ? uint8_t{0} : bundle_flags::kNoEcho,
                        .records = a.records,
                        .association = a.remote_index,
                        .epoch = a.remote_epoch,
                        .stamp = now,
                        .echo = (mutant(Mutant::kForeignEcho) ? *open_.front() : a).echo(now),
                        .sequence = a.sequence};
  if (a.sent != nullptr) a.sent->seal(a.sequence);
  ++a.sequence;
  const auto bytes = static_cast<uint32_t>(a.at - a.begin);
  seal_bundle(head, driver_.integrity(), {a.begin, bytes});
  driver_.send_frame(a, bytes);
  a.begin = a.at = a.end = nullptr;
}

template <typename Driver>
void BundleWriter<Driver>::send_all() {
  for (Association* a : open_) {
    a->is_open = false;
    if (a->begin == nullptr) continue;
    seal(*a);
    if (a->depth != a->in_flight) a->set_depth(a->depth - (a->depth - a->in_flight) / 4);
  }
  open_.clear();
  driver_.flush();
}

template <typename Driver>
void BundleWriter<Driver>::finish(Association& a) {
  if (a.begin != nullptr && a.records > 0 && a.remote_index != kNoAssociation) {
    seal(a);
    driver_.flush();
  }
  discard(a);
}

template <typename Driver>
void BundleWriter<Driver>::discard(Association& a) {
  if (a.begin != nullptr) driver_.send_frame(a, 0);
  a.begin = a.at = a.end = nullptr;
  std::erase(open_, &a);
  a.is_open = false;
}

template <typename Driver>
std::byte* BundleWriter<Driver>::write(Association& a, const RecordHead& head) {
  std::byte* at = room(a, static_cast<uint32_t>(kRecordHeadBytes) + head.bytes);
  if (at == nullptr) return nullptr;
  head.write(at);
  return at + kRecordHeadBytes;
}

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_BUNDLE_WRITER_H_
