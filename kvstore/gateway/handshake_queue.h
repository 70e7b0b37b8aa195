// HandshakeQueue: connections whose TLS handshake could go on. A step of a handshake costs about a millisecond, so a
// thread makes few of them in a turn of its loop, and clients that are in are served in between (gateway_admission.cc).
//
// Addresses have their turns one after the other, and the connections of an address in the order of their coming: so
// one that begins thousands does not shut out others. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_HANDSHAKE_QUEUE_H_
#define SKUA_KVSTORE_GATEWAY_HANDSHAKE_QUEUE_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace skua::kv::gateway {

/// Thread: one at a time.
class HandshakeQueue {
 public:
  /// `address`: of the client, without its port. A connection that waits already stays where it is.
  void add(uint64_t connection, const std::string& address);
  /// The connection has ended. No matter if it does not wait.
  void remove(uint64_t connection);
  /// Takes the next one out. Nothing: nobody waits.
  [[nodiscard]] std::optional<uint64_t> take();
  [[nodiscard]] bool contains(uint64_t connection) const { return places_.contains(connection); }
  [[nodiscard]] bool empty() const { return places_.empty(); }

 private:
  using OfAddress = std::map<std::string, std::list<uint64_t>>;
  struct Place {
    OfAddress::iterator address;
    std::list<uint64_t>::iterator at;
  };

  OfAddress waiting_;           // no list is empty
  std::string latest_address_;  // whose turn was the latest
  absl::flat_hash_map<uint64_t, Place> places_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_HANDSHAKE_QUEUE_H_
