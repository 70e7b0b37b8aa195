// Memory that programs lend to writes: skua_async_put_lend() and the like.
//
//   LentMemory      in the call, until it is certain that the write will be tried
//   PutValue        in the write's operation; it calls Loans::end() when no transport reads the memory any longer
//
// Each of them ends the loan exactly once, or hands it on. The program's function may be called from deep inside the
// client, where the client cannot take another call. So the client refuses calls while the function runs
// (Activity::kReleasing).
#ifndef SKUA_KVSTORE_C_LOANS_H_
#define SKUA_KVSTORE_C_LOANS_H_

#include <deque>
#include <string_view>
#include <utility>

#include "include/skua/skua.h"
#include "kvstore/client/types.h"

namespace skua::c {

/// What ends a loan, and whose client it is.
struct Loan {
  skua_client* client = nullptr;
  skua_release release = nullptr;
  void* context = nullptr;
  Loan* next_free = nullptr;
};

/// The loans of a polled client: those that last, and free ones for later use, so that a steady state allocates none.
/// Must outlive the client's operations. Thread: the client's.
class Loans {
 public:
  Loans() = default;
  Loans(const Loans&) = delete;
  Loans& operator=(const Loans&) = delete;

  /// Throws std::bad_alloc; then there is no loan.
  [[nodiscard]] Loan& begin(skua_client& client, skua_release release, void* context);
  /// A kv::PutValue::ReleaseFn. `loan` is what begin() returned. Calls the program's function.
  static void end(void* loan) noexcept;

 private:
  std::deque<Loan> all_;
  Loan* free_ = nullptr;
};

/// Memory that was lent to a call. Gives it back when the call ends, unless the memory was handed over.
class LentMemory {
 public:
  LentMemory(skua_release release, void* context) noexcept : release_(release), context_(context) {}
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  ~LentMemory() {
    if (release_ != nullptr) release_(context_);
  }

  [[nodiscard]] bool has_no_release() const noexcept { return release_ == nullptr; }
  /// A value for a write of `client`, which gives the memory back. Throws std::bad_alloc, and keeps the memory then.
  [[nodiscard]] kv::PutValue hand_over(std::string_view bytes, skua_client& client);

 private:
  skua_release release_;
  void* const context_;
};

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_LOANS_H_
