// Words of an inline command, quoted as in redis-cli: "a \x00 \n", 'a \' b'. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_INLINE_WORDS_H_
#define SKUA_KVSTORE_GATEWAY_INLINE_WORDS_H_

#include <string_view>

#include "kvstore/gateway/command_arguments.h"

namespace skua::kv::gateway {

/// Appends the words of `line` to `words`. False: a quote is not closed, or something follows a closing quote at once.
[[nodiscard]] bool split_inline_words(std::string_view line, CommandArguments& words);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_INLINE_WORDS_H_
