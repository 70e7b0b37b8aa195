// The words of a line that was typed at the prompt of skuactl's shell. Pure.
//
//   put notes 'two words' "it's"     # a comment
//
// Blanks separate words. Single and double quotes keep blanks; a quote of the other kind stands for itself in them. A
// backslash stands for itself everywhere, because keys are typed as they are printed: \x00 (key_text.h). A # at the
// beginning of a word begins a comment.
#ifndef SKUA_KVSTORE_CTL_SHELL_WORDS_H_
#define SKUA_KVSTORE_CTL_SHELL_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

namespace skua::kv::ctl {

struct ShellWords {
  std::vector<std::string> words;
  /// The quote that is still open at the end of the line, or 0.
  char open_quote = 0;
  /// The line ends inside the last word, or directly behind it.
  bool ends_in_word = false;
};

[[nodiscard]] ShellWords split_command_line(std::string_view line);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_SHELL_WORDS_H_
