// Notices of remote writes without a call: the bytes that user and owner share, and what each side keeps. Pure: no I/O.
//
// A transport's WRITE with immediate data carries 32 bits to the owner's side. A notice has more: a number that the
// user chooses, and which bytes were written. So each region that gets notices has a ring beside it, in the owner's
// memory, and a slot at the owner:
//
//    user                                                         owner
//      WRITE the bytes -----------------------------------------> region
//      WRITE with immediate: an entry --------------------------> ring.entry[7]  {offset, bytes, notice}
//                            its 32 bits: slot, entry 7 --------> completion: by (peer, slot) finds the region,
//                                                                 reads entry 7, checks it as it would a call,
//      READ ring.taken when entries run short <------------------ tells its observer and counts taken[7] up
//
// Both WRITEs go over one connection, which keeps their order. So the bytes are in place when the owner gets the entry.
//
//    ring     u8 taken[32] | entry[32]: u64 offset, u32 bytes, u32 notice                      little endian
//    32 bits  entry (low 8), slot (high 24)
//
// Flow. An entry may be written again once the owner took it. The user counts how often it used each entry, and the
// owner counts how often it took each. Where both counts are equal, modulo 256, the entry is free. Because each entry
// has a count of its own, the order in which operations of a session are posted does not matter, and an operation that
// was never posted costs nothing. The owner's processor only counts. A user that has no free entry makes a call
// instead; so does every user whose transport cannot send notices. So nobody waits, and at most 32 notices of a region
// wait in the owner's receive queue, where a connection has room for a few regions.
//
// Trust. An entry, like a call's request, is only what the peer says: bounds, right, lease and session are checked
// first. A slot is valid only from the peer that the region was granted to. After an operation that failed, the user
// does not know what the owner received. It stops using the ring, and makes calls.
#ifndef SKUA_RPC_NOTICE_RING_H_
#define SKUA_RPC_NOTICE_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/base/bytes.h"
#include "rpc/base/check.h"

namespace skua::rpc {

/// The layout of the ring.
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

  /// Offset of an entry from the ring's beginning.
  [[nodiscard]] static constexpr size_t offset_of(uint32_t entry) { return kTakenBytes + entry * kEntryBytes; }
  [[nodiscard]] static constexpr uint32_t number_of(uint32_t slot, uint32_t entry) { return slot << 8 | entry; }
  [[nodiscard]] static constexpr uint32_t slot_of(uint32_t number) { return number >> 8; }
  [[nodiscard]] static constexpr uint32_t entry_of(uint32_t number) { return number & 0xff; }

  /// The owner's side: reads the entry that `number` names, and frees it for the user. nullopt: no such entry.
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

  /// Takes a free entry, to be written. nullopt: the owner may still have to read all entries.
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
  /// Frees an entry that was taken and never written.
  void give_back(uint32_t entry) {
    SKUA_CHECK(entry < NoticeRing::kEntries && !free_[entry], "an entry was given back that is free");
    --used_[entry];
    free_[entry] = true;
    ++free_count_;
  }
  /// Frees the entries that the owner has taken. `taken` was read from the ring a while ago. The owner may lie in it:
  /// at worst, notices of this user are lost.
  void on_taken(ByteSpan taken) {
    for (uint32_t entry = 0; entry < NoticeRing::kEntries && entry < taken.size(); ++entry) {
      if (free_[entry] || static_cast<uint8_t>(taken[entry]) != used_[entry]) continue;
      free_[entry] = true;
      ++free_count_;
    }
  }
  [[nodiscard]] uint32_t free_count() const { return free_count_; }
  /// True: it is time to read the owner's counts.
  [[nodiscard]] bool is_short() const { return free_count_ <= NoticeRing::kEntries / 2; }

 private:
  std::array<bool, NoticeRing::kEntries> free_{};
  std::array<uint8_t, NoticeRing::kEntries> used_{};
  uint32_t free_count_ = NoticeRing::kEntries;
  uint32_t next_ = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_NOTICE_RING_H_
