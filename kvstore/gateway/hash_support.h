// What several handlers of hashes need.
#ifndef SKUA_KVSTORE_GATEWAY_HASH_SUPPORT_H_
#define SKUA_KVSTORE_GATEWAY_HASH_SUPPORT_H_

#include <optional>
#include <span>
#include <string_view>

#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/hash_fields.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// A field of a hash can have that name.
[[nodiscard]] bool is_field_name(std::string_view name);

/// As read_value(), but the result may lack fields that have other names. `names` must live until the result is there.
/// Names that no field can have are left out, so they get smaller.
[[nodiscard]] StoreRequest read_fields(const CommandRun& run, std::span<std::string_view> names);

/// The value of the field; a view of the row that `got` has. Nothing: the row has no such field.
[[nodiscard]] std::optional<std::string_view> field_in(const StoreResult& got, std::string_view name);

/// Sets and removes fields of the hash at the first word behind the name, as `edit` (codec/row.h) says. `creates`: an
/// absent key becomes a hash. It keeps the key's time to live. `edit` must live until the result is there. For
/// reply_not_hash_edit().
[[nodiscard]] StoreRequest edit_hash(const CommandRun& run, std::string_view edit, bool creates);
/// True: the store failed, or the key does not hold a hash, and the client has been told. An absent key counts as a
/// hash.
bool reply_not_hash_edit(CommandRun& run, const StoreResult& edited);

/// True: no field of a row can have that name, and the client has been told.
bool reply_bad_field_name(CommandRun& run, std::string_view name);
/// True: the hash would be larger than a row may be, and the client has been told.
bool reply_large_hash(CommandRun& run, const HashChange& change);

/// Sets the fields that `row` has, if the key still is as `old`, the result of read_value(), says. It keeps the key's
/// time to live. `row` must live until the result is there.
[[nodiscard]] StoreRequest set_fields(const CommandRun& run, const StoreResult& old, std::string_view row);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_HASH_SUPPORT_H_
