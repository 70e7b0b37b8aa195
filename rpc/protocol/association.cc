#include "rpc/protocol/association.h"

namespace skua::rpc {

Association* Associations::to(uint32_t peer) {
  const auto found = own_.find(peer);
  return found == own_.end() ? nullptr : found->second;
}

Association* Associations::of(uint32_t peer, uint32_t remote_index, uint32_t remote_epoch) {
  const auto found = accepted_.find({peer, remote_index, remote_epoch});
  return found == accepted_.end() ? nullptr : found->second;
}

Association& Associations::make(uint32_t peer, uint32_t epoch) {
  // Use the index that has been free for the longest time, so that late bundles of its last association have arrived.
  if (free_.size() < 2) {
    free_.push_front(static_cast<uint32_t>(all_.size()));  // a new one
    all_.emplace_back();
  }
  const uint32_t index = free_.front();
  free_.pop_front();
  all_[index] = std::make_unique<Association>();
  all_[index]->peer = peer;
  all_[index]->index = index;
  all_[index]->epoch = epoch;
  return *all_[index];
}

Association& Associations::make_own(uint32_t peer, uint32_t epoch) {
  Association& made = make(peer, epoch);
  made.is_ours = true;
  own_[peer] = &made;
  return made;
}

Association& Associations::make_accepted(uint32_t peer, uint32_t remote_index, uint32_t remote_epoch, uint32_t epoch) {
  Association& made = make(peer, epoch);
  made.remote_index = remote_index;
  made.remote_epoch = remote_epoch;
  accepted_[{peer, remote_index, remote_epoch}] = &made;
  return made;
}

void Associations::retire(Association& association) {
  if (association.is_ours) {
    const auto found = own_.find(association.peer);
    if (found != own_.end() && found->second == &association) own_.erase(found);
  } else {
    accepted_.erase({association.peer, association.remote_index, association.remote_epoch});
  }
}

void Associations::end(Association& association) {
  retire(association);
  const uint32_t index = association.index;
  ended_.push_back(std::move(all_[index]));
  free_.push_back(index);
}

}  // namespace skua::rpc
