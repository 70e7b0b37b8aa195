#include "kvstore/c/loans.h"

#include "kvstore/c/client.h"

namespace skua::c {

Loan& Loans::begin(skua_client& client, skua_release release, void* context) {
  if (free_ == nullptr) free_ = &all_.emplace_back();
  Loan& loan = *free_;
  free_ = loan.next_free;
  loan = {&client, release, context, nullptr};
  return loan;
}

void Loans::end(void* loan) noexcept {
  Loan& ended = *static_cast<Loan*>(loan);
  skua_client& client = *ended.client;
  const skua_release release = ended.release;
  void* const context = ended.context;
  ended.next_free = std::exchange(client.loans.free_, &ended);
  const Activity before = std::exchange(client.activity, Activity::kReleasing);
  release(context);
  client.activity = before;
}

kv::PutValue LentMemory::hand_over(std::string_view bytes, skua_client& client) {
  Loan& loan = client.loans.begin(client, release_, context_);
  release_ = nullptr;
  return kv::PutValue::lend(bytes, Loans::end, &loan);
}

}  // namespace skua::c
