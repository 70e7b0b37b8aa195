// FairQueue: what clients wait for, such as the next step of a TLS handshake or the check of a password. Both are slow,
// so few of them are done at a time.
//
// Addresses have their turns one after the other, and what waits for one address in the order of its coming: so one
// that begins thousands does not shut out others. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_FAIR_QUEUE_H_
#define SKUA_KVSTORE_GATEWAY_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace skua::kv::gateway {

/// Thread: one at a time.
template <typename Item>
class FairQueue {
 public:
  /// `id`: names the item; one that waits already stays where it is. `address`: of the client, without its port.
  void add(uint64_t id, const std::string& address, Item&& item) {
    if (places_.contains(id)) return;
    const auto of_address = waiting_.try_emplace(address).first;
    of_address->second.push_back({id, std::move(item)});
    places_[id] = {of_address, std::prev(of_address->second.end())};
  }
  /// Takes this one out. Nothing: it does not wait.
  std::optional<Item> remove(uint64_t id) {
    const auto found = places_.find(id);
    if (found == places_.end()) return std::nullopt;
    const Place place = found->second;
    places_.erase(found);
    std::optional<Item> removed(std::move(place.at->item));
    place.address->second.erase(place.at);
    if (place.address->second.empty()) waiting_.erase(place.address);
    return removed;
  }
  /// Takes the next one out. Nothing: none waits.
  [[nodiscard]] std::optional<Item> take() {
    if (waiting_.empty()) return std::nullopt;
    auto next = waiting_.upper_bound(latest_address_);
    if (next == waiting_.end()) next = waiting_.begin();
    latest_address_ = next->first;
    return remove(next->second.front().id);
  }
  [[nodiscard]] bool contains(uint64_t id) const { return places_.contains(id); }
  [[nodiscard]] bool empty() const { return places_.empty(); }
  [[nodiscard]] size_t size() const { return places_.size(); }
  [[nodiscard]] size_t size_of(const std::string& address) const {
    const auto found = waiting_.find(address);
    return found == waiting_.end() ? 0 : found->second.size();
  }

 private:
  struct Waiting {
    uint64_t id;
    Item item;
  };
  using OfAddress = std::map<std::string, std::list<Waiting>>;
  struct Place {
    typename OfAddress::iterator address;
    typename std::list<Waiting>::iterator at;
  };

  OfAddress waiting_;           // no list is empty
  std::string latest_address_;  // whose turn was the latest
  absl::flat_hash_map<uint64_t, Place> places_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_FAIR_QUEUE_H_
