// Notices of remote writes without a call: the bytes that user and owner share for them, and what each of them keeps.
// Pure.
//
// A transport's WRITE with immediate data carries 32 bits to the owner's side. A notice is more: a number of the
// user's, and which bytes were written. So each region that notices are wanted for gets a ring beside it, in the
// owner's memory, and a slot at the owner:
//
//    user                                                         owner
//      WRITE the bytes -----------------------------------------> region
//      WRITE with immediate: an entry --------------------------> ring.entry[7]  {offset, bytes, notice}
//                            its 32 bits: slot, entry 7 --------> completion: by (peer, slot) finds the region,
//                                                                 reads entry 7, checks it as it would a call,
//      READ ring.taken when entries run short <------------------ tells its observer and counts taken[7] up
//
// Both WRITEs go over one connection, which keeps their order: who hears of the entry finds the bytes in place.
//
//    ring     u8 taken[32] | entry[32]: u64 offset, u32 bytes, u32 notice                      little endian
//    32 bits  entry (low 8), slot (high 24)
//
// Flow. An entry may be written again once it was taken. The user knows how often it used each entry, and the owner
// counts how often it took each: where both are equal, modulo 256, the entry is free. Counted by entry, and not all
// together, nothing depends on the order in which operations of a session are posted, nor is anything lost by one that
// was not posted after all. The owner's processor has no part in this but its own counting. A user that has no free
// entry makes a call, as do all where the transport cannot do this. So nobody waits, and at most 32 notices of a region
// wait in the owner's receive queue, where a connection has room for a few regions.
//
// Trust. An entry is the peer's word, like a call's request: bounds, right, lease and session are checked before
// anything is believed. The slot counts only from the peer that the region was granted to. After an operation that
// failed the user does not know what the owner heard: it uses the ring no more, and calls.
#ifndef SKUA_RPC_NOTICE_RING_H_
#define SKUA_RPC_NOTICE_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"

namespace skua::rpc {

/// The ring's bytes.
struct NoticeRing {
  static constexpr uint32_t kEntries = 32;
  static constexpr size_t kEntryBytes = 16;
  static constexpr size_t kTakenBytes = kEntries;
  static constexpr size_t kBytes = kTakenBytes + kEntries * kEntryBytes;
  static constexpr uint32_t kSlotsMax = 1u << 24;

  struct Entry {
    uint64_t offset = 0;
    uint32_t bytes = 0;
    uint32_t notice = 0;
    bool operator==(const Entry&) const = default;

    void write(std::byte* to) const {
      store_le(to, offset);
      store_le(to + 8, bytes);
      store_le(to + 12, notice);
    }
    [[nodiscard]] static Entry read(const std::byte* from) {
      return {load_le<uint64_t>(from), load_le<uint32_t>(from + 8), load_le<uint32_t>(from + 12)};
    }
  };

  /// From the ring's beginning.
  [[nodiscard]] static constexpr size_t offset_of(uint32_t entry) { return kTakenBytes + entry * kEntryBytes; }
  [[nodiscard]] static constexpr uint32_t number_of(uint32_t slot, uint32_t entry) { return slot << 8 | entry; }
  [[nodiscard]] static constexpr uint32_t slot_of(uint32_t number) { return number >> 8; }
  [[nodiscard]] static constexpr uint32_t entry_of(uint32_t number) { return number & 0xff; }

  /// The owner's side: what the entry says; it is free for the user from now on. Nothing: there is no such entry.
  [[nodiscard]] static std::optional<Entry> take(MutableByteSpan ring, uint32_t number) {
    const uint32_t entry = entry_of(number);
    if (entry >= kEntries) return std::nullopt;
    const Entry out = Entry::read(ring.data() + offset_of(entry));
    ring[entry] = static_cast<std::byte>(static_cast<uint8_t>(ring[entry]) + 1);
    return out;
  }
};

/// The user's side: which entries of a ring are free.
class NoticeEntries {
 public:
  NoticeEntries() { free_.fill(true); }

  /// An entry to write. Nothing: all may still be the owner's to read.
  [[nodiscard]] std::optional<uint32_t> take() {
    for (uint32_t i = 0; free_count_ > 0 && i < NoticeRing::kEntries; ++i) {
      const uint32_t entry = (next_ + i) % NoticeRing::kEntries;
      if (!free_[entry]) continue;
      next_ = entry + 1;
      free_[entry] = false;
      --free_count_;
      ++used_[entry];
      return entry;
    }
    return std::nullopt;
  }
  /// What was to be written there never was.
  void give_back(uint32_t entry) {
    SKUA_CHECK(entry < NoticeRing::kEntries && !free_[entry], "an entry was given back that is free");
    --used_[entry];
    free_[entry] = true;
    ++free_count_;
  }
  /// What the owner has taken, as was read a while ago: a peer's word, of which at worst a notice of our own is lost.
  void on_taken(ByteSpan taken) {
    for (uint32_t entry = 0; entry < NoticeRing::kEntries && entry < taken.size(); ++entry) {
      if (free_[entry] || static_cast<uint8_t>(taken[entry]) != used_[entry]) continue;
      free_[entry] = true;
      ++free_count_;
    }
  }
  [[nodiscard]] uint32_t free_count() const { return free_count_; }
  /// Time to look at what was taken.
  [[nodiscard]] bool is_short() const { return free_count_ <= NoticeRing::kEntries / 2; }

 private:
  std::array<bool, NoticeRing::kEntries> free_{};
  std::array<uint8_t, NoticeRing::kEntries> used_{};
  uint32_t free_count_ = NoticeRing::kEntries;
  uint32_t next_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_NOTICE_RING_H_
