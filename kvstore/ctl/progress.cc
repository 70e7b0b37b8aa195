#include "kvstore/ctl/progress.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "app/next_words.h"
#include "kvstore/ctl/key_text.h"
#include "kvstore/ctl/output.h"

namespace skua::kv::ctl {
namespace {

constexpr DurationNs kPauseBetweenLines = 2 * kSecond;

/// Nothing in the word means anything to a shell.
bool is_plain_word(std::string_view word) {
  constexpr std::string_view kPlain = "-_./:,=@%+";
  return !word.empty() && std::ranges::all_of(word, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kPlain.find(c) != std::string_view::npos;
  });
}

}  // namespace

void Progress::tell(const std::function<std::string()>& text) {
  if (!shown_) return;
  const TimeNs now_ns = SteadyClock().now_ns();
  if (now_ns - told_ns_ < kPauseBetweenLines) return;
  told_ns_ = now_ns;
  print_error(text());
}

std::string command_line(const app::Program& program, const std::vector<std::string>& words) {
  std::vector<std::string> all = app::given_flags(program);
  all.insert(all.end(), words.begin(), words.end());
  std::string line = kProgram;
  for (const std::string& word : all) absl::StrAppend(&line, " ", is_plain_word(word) ? word : shell_word(word));
  return line;
}

}  // namespace skua::kv::ctl
