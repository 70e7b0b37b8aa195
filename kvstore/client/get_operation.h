// GET.
#ifndef SKUA_KVSTORE_CLIENT_GET_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_GET_OPERATION_H_

#include <string>

#include "absl/status/status.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/operation.h"

namespace skua::kv {

class MultiGetOperation;

class GetOperation final : public CallOperation {
 public:
  /// INVALID_ARGUMENT: the key passes a limit.
  [[nodiscard]] absl::Status accept(const GetCall& call, GetCallback&& callback);
  [[nodiscard]] absl::Status accept(const PlainGetCall& call, const GetFunction& function);
  /// Instead of accept(), for a part of a MULTI_GET: its key number `index`.
  void ask_for(std::string_view key, bool wants_mark, MultiGetOperation& parent, uint32_t index);

  /// The request is encode_plain_get()'s.
  [[nodiscard]] bool is_plain() const { return at_least_.empty() && wishes_.is_plain(); }
  [[nodiscard]] absl::StatusOr<Request> encode(const Route& route, HeadBuffer& buffer) override;
  void on_reply(rpc::Lease&& reply) override;
  void finish(Outcome&& outcome) override;
  [[nodiscard]] std::string_view shown_key() const override { return key_; }

  [[nodiscard]] std::string_view key() const { return key_; }
  [[nodiscard]] const Token& at_least() const { return at_least_; }
  [[nodiscard]] uint32_t key_index() const { return key_index_; }

 protected:
  void reset() override;

 private:
  [[nodiscard]] absl::Status check(std::string_view key, const ReadOptions& options);
  // Takes over the options that few calls set.
  [[nodiscard]] absl::Status take_rare(const ReadOptions& options);
  // On the path of every call, so it is a part of accept() for the compiler.
  [[gnu::always_inline]] inline void take(std::string_view key, const ReadOptions& options);
  void finish_with(GetResult&& result);
  // noinline: inlined into finish_with(), it would make the other branch save more registers.
  [[gnu::noinline]] void call_function(GetResult&& result);

  KeyText key_;
  Token at_least_;
  GetWishes wishes_;
  size_t field_count_ = 0;   // if wishes_.fields
  std::string field_names_;  // if wishes_.fields: encoded
  GetCallback done_;
  GetFunction function_;                 // instead of done_, if it has a `call`
  MultiGetOperation* parent_ = nullptr;  // if is_part
  uint32_t key_index_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_GET_OPERATION_H_
