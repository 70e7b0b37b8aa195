#include "kvstore/ctl/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/ctl/shell_words.h"

namespace skua::kv::ctl {
namespace {

constexpr int kLinesKept = 1000;

struct HistoryDeleter {
  void operator()(History* history) const { history_end(history); }
};
struct EditLineDeleter {
  void operator()(EditLine* editor) const { el_end(editor); }
};

/// The beginning that all of `words` have; there is one at least.
std::string common_beginning(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    size_t same = 0;
    while (same < common.size() && same < word.size() && common[same] == word[same]) ++same;
    common.resize(same);
  }
  return common;
}

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t resized = 0;
volatile std::sig_atomic_t ended_by_signal = 0;
void on_interrupt(int /*signal*/) {
  interrupted = 1;
}
void on_resize(int /*signal*/) {
  resized = 1;
}
void on_end(int signal) {
  ended_by_signal = signal;
}

/// While a line is read, signals come in get_char() only, where the thread sleeps. Elsewhere libedit would not notice
/// one before the next key. What the terminal's job control would stop is not stopped: the terminal is in raw mode.
/// SIGTERM and SIGHUP end the input: so the terminal is set back.
class PromptSignals {
 public:
  PromptSignals() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < kCount; ++i) {
      struct sigaction action = {};
      action.sa_handler = kHandlers[i].second;
      if (action.sa_handler != SIG_IGN) sigaddset(&blocked, kHandlers[i].first);
      sigaction(kHandlers[i].first, &action, &before_[i]);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
    interrupted = 0;
  }
  ~PromptSignals() {
    for (size_t i = 0; i < kCount; ++i) sigaction(kHandlers[i].first, &before_[i], nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  PromptSignals(const PromptSignals&) = delete;
  PromptSignals& operator=(const PromptSignals&) = delete;

  [[nodiscard]] const sigset_t& mask_before() const { return mask_before_; }

 private:
  using Handler = std::pair<int, void (*)(int)>;
  static constexpr size_t kCount = 6;
  static inline const std::array<Handler, kCount> kHandlers{{{SIGINT, &on_interrupt},
                                                             {SIGWINCH, &on_resize},
                                                             {SIGTERM, &on_end},
                                                             {SIGHUP, &on_end},
                                                             {SIGQUIT, SIG_IGN},
                                                             {SIGTSTP, SIG_IGN}}};

  sigset_t mask_before_{};
  std::array<struct sigaction, kCount> before_{};
};

/// The last lines of the file, oldest first.
std::vector<std::string> read_history(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  if (lines.size() > kLinesKept) lines.erase(lines.begin(), lines.end() - kLinesKept);
  return lines;
}

void write_history(const std::string& path, const std::vector<std::string>& lines, int flags) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, S_IRUSR | S_IWUSR);
  if (file < 0) return;
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  // A line that is lost is no reason to stop.
  (void)!write(file, text.data(), text.size());
  close(file);
}

/// Lines that begin with a blank are kept out by the user, as in shells. A join token lets whoever has it into the
/// cluster.
bool is_secret(const std::string& line) {
  return line.empty() || line[0] == ' ' || line.find("skua-join-") != std::string::npos;
}

}  // namespace

struct LineEditor::Impl {
  Options options;
  std::unique_ptr<History, HistoryDeleter> history;
  std::unique_ptr<EditLine, EditLineDeleter> editor;
  const PromptSignals* signals = nullptr;  // while a line is read
  std::mbstate_t multibyte{};

  static int get_char(EditLine* editor, wchar_t* to);
  static char* prompt(EditLine* editor) { return of(editor).options.prompt.data(); }
  static unsigned char complete(EditLine* editor, int key);
  static Impl& of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }
};

unsigned char LineEditor::Impl::complete(EditLine* editor, int /*key*/) {
  const LineInfo* const line = el_line(editor);
  const std::string_view text(line->buffer, static_cast<size_t>(line->cursor - line->buffer));
  const std::vector<std::string> words = of(editor).options.complete(text);
  if (words.empty()) return CC_REFRESH_BEEP;
  const ShellWords typed = split_command_line(text);
  const std::string begun = typed.ends_in_word ? typed.words.back() : std::string();
  std::string more = common_beginning(words).substr(begun.size());
  if (words.size() == 1) more += ' ';
  if (!more.empty()) return el_insertstr(editor, more.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  std::fputs("\n", stdout);
  for (const std::string& word : words) std::printf("%s  ", word.c_str());
  std::fputs("\n", stdout);
  return CC_REDISPLAY;
}

/// 1: a character. 0: the input has ended. -1: it cannot be read, or the user interrupts.
int LineEditor::Impl::get_char(EditLine* editor, wchar_t* to) {
  Impl& self = of(editor);
  for (;;) {
    pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (ppoll(&input, 1, nullptr, &self.signals->mask_before()) < 0) {
      if (errno != EINTR || interrupted != 0) return -1;
      if (ended_by_signal != 0) return 0;
      if (std::exchange(resized, 0) != 0) el_resize(editor);
      continue;
    }
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got <= 0) return static_cast<int>(got);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    const size_t used = std::mbrtowc(to, &byte, 1, &self.multibyte);
    if (used == static_cast<size_t>(-2)) continue;  // more bytes belong to the character
    if (used == static_cast<size_t>(-1)) {
      self.multibyte = {};
      continue;
    }
    return 1;
  }
}

LineEditor::LineEditor(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->history.reset(history_init());
  // libedit works on characters. What is typed is UTF-8, also where no language is chosen.
  std::setlocale(LC_CTYPE, "");                              // NOLINT(concurrency-mt-unsafe): there is one thread
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");  // NOLINT(concurrency-mt-unsafe): there is one thread
  HistEvent event;
  history(impl_->history.get(), &event, H_SETSIZE, kLinesKept);
  history(impl_->history.get(), &event, H_SETUNIQUE, 1);
  const std::string& path = impl_->options.history_path;
  const std::vector<std::string> lines = path.empty() ? std::vector<std::string>() : read_history(path);
  for (const std::string& line : lines) history(impl_->history.get(), &event, H_ENTER, line.c_str());
  // It has grown by a line for each command since it was made short.
  if (lines.size() == kLinesKept) write_history(path, lines, O_TRUNC);
  EditLine* const editor = el_init(impl_->options.program, stdin, stdout, stderr);
  impl_->editor.reset(editor);
  el_set(editor, EL_CLIENTDATA, impl_.get());
  el_set(editor, EL_PROMPT, &Impl::prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, &history, impl_->history.get());
  el_set(editor, EL_GETCFN, &Impl::get_char);
  el_set(editor, EL_ADDFN, "skuactl-complete", "Completes the word", &Impl::complete);
  el_set(editor, EL_BIND, "^I", "skuactl-complete", nullptr);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(editor, nullptr);  // the user's ~/.editrc
}

LineEditor::~LineEditor() = default;

int LineEditor::ended_by() const {
  return ended_by_signal;
}

std::optional<std::string> LineEditor::read() {
  const PromptSignals signals;
  impl_->signals = &signals;
  // Before the prompt: a key that is typed at once must be read as all others are.
  el_set(impl_->editor.get(), EL_PREP_TERM, 1);
  int size = 0;
  const char* const text = el_gets(impl_->editor.get(), &size);
  impl_->signals = nullptr;
  if (text == nullptr || size <= 0) {
    if (interrupted == 0) return std::nullopt;
    el_reset(impl_->editor.get());
    std::fputs("\n", stdout);
    return std::string();
  }
  std::string line(text, static_cast<size_t>(size));
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event;
  if (is_secret(line)) return line;
  history(impl_->history.get(), &event, H_ENTER, line.c_str());
  if (!impl_->options.history_path.empty()) write_history(impl_->options.history_path, {line}, O_APPEND);
  return line;
}

}  // namespace skua::kv::ctl
