// RecordMark: what a record says about its value, beside the value.
//
//    tag   32 bits that mean something to those who write, and nothing to the store (memcached calls them flags)
//    row   the value is a row (codec/row.h) in which no name occurs twice: the store refuses writes that would make
//          anything else of it. Without the bit a value may look like a row by accident. Readers parse the value all
//          the same, and handle a malformed one as an error
//
// A PUT sets both; a PUT that names none clears them. Everything else that changes a record keeps them: ADD, APPEND,
// EXPIRE and PATCH. A PATCH may ask for `row`: a record that it makes has the bit then, and a record that is there and
// lacks it gives NOT_A_ROW. An APPEND to a record with `row` gives IS_A_ROW: its bytes could be anything. (An ADD to a
// row is NOT_A_NUMBER.)
//
// Older versions wrote no marks, and most records have none. So an empty mark is never encoded, and a record without a
// mark has the same bytes as before. A mark that is not empty is a word behind the other fields, and a bit says so:
//
//    0 u32 tag    4 u32 flags (1: row; else 0)
//
//    where                                  the bit that says that the word follows     file
//    PUT, PATCH                             flag 64 of the request's header             codec/request.h
//    BATCH                                  flag 4 of the operation                     codec/batch.h
//    replies: GET, MULTI_GET, SCAN          flag 2, only if the request asked (flag 4)  codec/reply.h
//    effects, in logs and between replicas  flag 2 of the effect                        codec/effect.h
//    databases, and copies of them          bit 62 of the version                       storage/rocksdb_internal.h
//    memory                                 none: the item's header has room            memory/item.h
//
// A build that knows no marks refuses each of these: the flags as unknown ones, and the database by its format number,
// which is 6 from the first mark on. So nodes are upgraded first, and then the clients that write marks. A node cannot
// go back to a build of before once its tables have records with marks.
//
// While some nodes are upgraded and others are not:
//
//    a client       asks the node that it sends to for kFeatureMarks (types/features.h); without it the client sends
//                   no mark, and the operation ends with UNIMPLEMENTED
//    a primary      looks at every effect that a write would leave. If one of them has a mark, and a member or learner
//                   of the shard's view is of a build that takes no marks (PeerInfo::takes_marks, by the shard map),
//                   the write is answered UNIMPLEMENTED, which names that node. The write has no entry, so no other
//                   write waits for it. An APPEND to a record with a mark is such a write, too
//    control plane  gives replicas only to nodes that take marks (control/core/protocol_version.h)
#ifndef SKUA_KVSTORE_TYPES_RECORD_MARK_H_
#define SKUA_KVSTORE_TYPES_RECORD_MARK_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace skua::kv {

struct RecordMark {
  uint32_t tag = 0;
  bool row = false;

  [[nodiscard]] constexpr bool empty() const { return tag == 0 && !row; }
  /// As it is encoded. 0: empty.
  [[nodiscard]] constexpr uint64_t word() const { return tag | uint64_t{row} << 32; }
  /// nullopt: the word is no mark of this build's.
  [[nodiscard]] static constexpr std::optional<RecordMark> of_word(uint64_t word) {
    if (word >> 33 != 0) return std::nullopt;
    return RecordMark{static_cast<uint32_t>(word), word >> 32 != 0};
  }
  friend bool operator==(const RecordMark&, const RecordMark&) = default;
};

/// Bytes of an encoded mark.
inline constexpr size_t kMarkBytes = sizeof(uint64_t);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_RECORD_MARK_H_
