// What may come next on a command line: for a program that completes words by itself (the shell of skuactl). Scripts
// for the shells of users: --completion.
#ifndef SKUA_APP_NEXT_WORDS_H_
#define SKUA_APP_NEXT_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"

namespace skua::app {

struct NextWords {
  /// Commands, options or values of an option that begin with the word, as they were declared.
  std::vector<std::string> words;
  /// The positional argument that the word would be, for example "table". Empty: none.
  std::string argument;
};

/// `before`: the words before the one that was begun, without the program's name. `begun` may be empty.
[[nodiscard]] NextWords next_words(const Command& root, const std::vector<std::string>& before, std::string_view begun);

/// The options of the program itself that the command line had, for a further command line: `--timeout=5s`. Those of
/// commands are left out.
[[nodiscard]] std::vector<std::string> given_flags(const Program& program);

}  // namespace skua::app

#endif  // SKUA_APP_NEXT_WORDS_H_
