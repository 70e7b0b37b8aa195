#include "rpc/protocol/small_slots.h"

#include <memory>

namespace skua::rpc {

void SmallSlots::make(SessionHot& hot) {
  const uint32_t window = hot.window();
  auto* memory = static_cast<std::byte*>(
      ::operator new(window*(sizeof(ClientSlot) + sizeof(ServerSlot)), std::align_val_t(alignof(ClientSlot))));
  hot.client = reinterpret_cast<ClientSlot*>(memory);
  std::uninitialized_default_construct_n(hot.client, window);
  std::uninitialized_default_construct_n(hot.server(), window);
  for (uint32_t i = window; i-- > 0;) {
    hot.client[i].req_num = hot.server()[i].req_num = i - window;
    hot.free_slot(i);
  }
  hot_ = &hot;
}

void SmallSlots::clear() {
  if (hot_ == nullptr) return;
  const uint32_t window = hot_->window();
  for (uint32_t i = 0; i < window; ++i) {
    hot_->client[i].request.release();
    hot_->server()[i].response.release();
  }
  std::destroy_n(hot_->server(), window);
  std::destroy_n(hot_->client, window);
  ::operator delete(hot_->client, std::align_val_t(alignof(ClientSlot)));
  hot_->client = nullptr;
  hot_->free_head = kNoFreeSlot;
  hot_ = nullptr;
}

}  // namespace skua::rpc
