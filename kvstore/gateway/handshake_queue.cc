#include "kvstore/gateway/handshake_queue.h"

#include <iterator>

namespace skua::kv::gateway {

void HandshakeQueue::add(uint64_t connection, const std::string& address) {
  if (places_.contains(connection)) return;
  const auto of_address = waiting_.try_emplace(address).first;
  of_address->second.push_back(connection);
  places_[connection] = {of_address, std::prev(of_address->second.end())};
}

void HandshakeQueue::remove(uint64_t connection) {
  const auto place = places_.find(connection);
  if (place == places_.end()) return;
  const OfAddress::iterator address = place->second.address;
  address->second.erase(place->second.at);
  if (address->second.empty()) waiting_.erase(address);
  places_.erase(place);
}

std::optional<uint64_t> HandshakeQueue::take() {
  if (waiting_.empty()) return std::nullopt;
  auto next = waiting_.upper_bound(latest_address_);
  if (next == waiting_.end()) next = waiting_.begin();
  latest_address_ = next->first;
  const uint64_t taken = next->second.front();
  remove(taken);
  return taken;
}

}  // namespace skua::kv::gateway
