// PUT, DELETE, PATCH, ADD, APPEND and EXPIRE.
#ifndef SKUA_KVSTORE_CLIENT_WRITE_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_WRITE_OPERATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/operation.h"

namespace skua::kv {

class WriteOperation final : public NumberedOperation {
 public:
  /// INVALID_ARGUMENT: a limit is passed, or the options do not fit the verb or each other.
  /// Moves the value out of `call`.
  [[nodiscard]] absl::Status accept(WriteCall& call, WriteCallback&& callback);

  [[nodiscard]] absl::StatusOr<Request> encode(const Route& route, HeadBuffer& buffer) override;
  void on_reply(rpc::Lease&& reply) override;
  void finish(Outcome&& outcome) override;
  [[nodiscard]] std::string_view shown_key() const override { return key_; }

 protected:
  void reset() override;

 private:
  absl::Status take_options(const WriteOptions& options);
  absl::Status take_fields(std::span<const FieldUpdate> fields);
  /// The bytes that follow the request's head: a value, or the fields of a PATCH.
  [[nodiscard]] std::string_view body() const { return payload_.empty() ? value_.bytes() : std::string_view(payload_); }

  KeyText key_;
  Condition condition_;
  Durability durability_ = Durability::kDefault;
  bool create_if_missing_ = false;
  bool edits_row_ = false;  // PATCH
  bool keep_ttl_ = false;
  RecordMark mark_;      // PUT, PATCH
  uint64_t ttl_ms_ = 0;  // PUT, EXPIRE
  int64_t delta_ = 0;    // ADD
  PutValue value_;       // PUT, APPEND: owned or lent bytes
  std::string payload_;  // PUT, APPEND: copied bytes; PATCH: the fields
  WriteCallback done_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_WRITE_OPERATION_H_
