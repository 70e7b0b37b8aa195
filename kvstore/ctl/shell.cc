#include "kvstore/ctl/shell.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/next_words.h"
#include "kvstore/ctl/line_editor.h"
#include "kvstore/ctl/output.h"
#include "kvstore/ctl/shell_words.h"
#include "rpc/base/printable.h"

namespace skua::kv::ctl {
namespace {

constexpr const char* kHelp =
    "Commands are those of skuactl, without its name: `get notes greeting`. Tab completes commands, options, tables "
    "and\n"
    "nodes. Blanks in a word need quotes. `help` lists the commands, `help COMMAND` explains one; `exit` or Ctrl-D "
    "leaves.\n";

/// The exit code of a process that a signal ended, as shells count.
constexpr int kSignalBase = 128;
/// Room for the names of thousands of tables. What users may have without privileges.
constexpr int kPipeBytes = 1 << 20;

std::string history_path() {
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): no other threads
  return home == nullptr || *home == '\0' ? std::string() : absl::StrCat(home, "/.skuactl_history");
}

/// True in the shell's process and in its children: a shell in a shell would read the same input.
bool is_inside_shell = false;

/// The signal of the key that was typed since the newest child was begun; 0: none.
volatile std::sig_atomic_t noted_key = 0;

extern "C" void note_key(int signal) {
  noted_key = signal;
}

/// The keys Ctrl-C and Ctrl-\ are for the child while there is one. The shell notes them.
class KeysForChild {
 public:
  KeysForChild() {
    noted_key = 0;
    take(SIGINT, interrupt_before_);
    take(SIGQUIT, quit_before_);
  }
  ~KeysForChild() { restore(); }
  KeysForChild(const KeysForChild&) = delete;
  KeysForChild& operator=(const KeysForChild&) = delete;

  void restore() const {
    sigaction(SIGINT, &interrupt_before_, nullptr);
    sigaction(SIGQUIT, &quit_before_, nullptr);
  }

 private:
  static void take(int signal, struct sigaction& before) {
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) return;  // by who started the shell: the keys are not for it, nor for the child
    struct sigaction note = {};
    note.sa_handler = &note_key;
    note.sa_flags = SA_RESTART;
    sigaction(signal, &note, nullptr);
  }

  struct sigaction interrupt_before_ = {};
  struct sigaction quit_before_ = {};
};

/// In the child. Its standard input cannot be read unless it `has_terminal`: in a script, what is there are commands,
/// and nothing at all would be taken for an empty value.
void become_child(pid_t parent, bool has_terminal) {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  // A command must not outlive a shell that is killed.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) std::_Exit(kSignalBase + SIGTERM);
  if (has_terminal) return;
  const int unreadable = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (unreadable >= 0) dup2(unreadable, STDIN_FILENO);
}

/// How a command ended, as waitpid() says it. Nothing: there was no process for it.
std::optional<int> in_child(const std::function<int()>& run, bool has_terminal) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const KeysForChild keys;
  const pid_t child = fork();
  if (child == 0) {
    keys.restore();
    if (noted_key != 0) std::raise(noted_key);  // it came before the child took its own keys
    become_child(parent, has_terminal);
    std::exit(run());  // NOLINT(concurrency-mt-unsafe): the child has no other threads
  }
  if (child < 0) return std::nullopt;
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  return state;
}

int code_of(std::optional<int> state) {
  if (!state.has_value()) {
    print_error("no process for the command: the system has none left");
    return app::kExitFailure;
  }
  return WIFEXITED(*state) ? WEXITSTATUS(*state) : kSignalBase + WTERMSIG(*state);
}

/// Ctrl-C and Ctrl-\ in a script are meant for all of it, however the command took them: one that waits tells what it
/// no longer waits for, and ends in order. A command that was sent such a signal alone ends with the signal's code.
void end_with_keys(int code) {
  int signal = noted_key;
  if (code == kSignalBase + SIGINT || code == kSignalBase + SIGQUIT) signal = code - kSignalBase;
  if (signal == 0) return;
  std::fflush(nullptr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// What `run` writes to standard output in a child process. Empty if it fails.
std::string output_of(const std::function<int()>& run) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  std::string text;
  const auto into_pipe = [&] {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(ends[1], STDOUT_FILENO);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    return run();
  };
  // The parent reads when the child has ended. More than the pipe takes is a failure of the child.
  fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const std::optional<int> state = in_child(into_pipe, false);
  close(ends[1]);
  std::array<char, 4096> block{};
  for (ssize_t got = 0; (got = read(ends[0], block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  return state == 0 ? text : std::string();
}

/// The next line of a stream, with its line break. False: the stream has ended, or could not be read. A line that an
/// error cut in two is not one: its first part could be another command.
bool read_line(FILE* stream, std::string& line) {
  line.clear();
  for (int c = 0; !line.ends_with('\n') && (c = std::getc(stream)) != EOF;) line.push_back(static_cast<char>(c));
  return !line.empty() && std::ferror(stream) == 0;
}

/// `skuactl get ...` means `get ...`.
std::vector<std::string> as_meant(std::vector<std::string> words) {
  if (words.front() == kProgram && words.size() > 1) words.erase(words.begin());
  return words;
}

}  // namespace

Shell::Shell(const app::Program& program, RunFn run)
    : program_(program), run_(std::move(run)), flags_(app::given_flags(program)) {}

std::optional<int> Shell::run_line(const std::vector<std::string>& typed, bool has_terminal) {
  const std::vector<std::string> words = as_meant(typed);
  if (words.front() == "exit" || words.front() == "quit") return std::nullopt;
  if (typed.front() == "help" && typed.size() == 1) std::fputs(kHelp, stdout);
  std::vector<std::string> all = flags_;
  all.insert(all.end(), words.begin(), words.end());
  return code_of(in_child([&] { return run_(all); }, has_terminal));
}

int Shell::converse() {
  LineEditor editor({.program = kProgram,
                     .prompt = absl::StrCat(kProgram, "> "),
                     .history_path = history_path(),
                     .complete = [this](std::string_view line) { return complete(line); }});
  int code = app::kExitOk;
  for (;;) {
    const std::optional<std::string> line = editor.read();
    if (!line.has_value()) {
      std::fputs("\n", stdout);
      return editor.ended_by() == 0 ? code : kSignalBase + editor.ended_by();
    }
    const ShellWords found = split_command_line(*line);
    if (found.open_quote != 0) {
      print_error(absl::StrCat("a ", std::string(1, found.open_quote), " has no end"));
      code = app::kExitUsage;
      continue;
    }
    if (found.words.empty()) continue;
    const std::optional<int> ran = run_line(found.words, true);
    if (!ran.has_value()) return code;
    code = *ran;
  }
}

int Shell::run_script(bool keeps_going) {
  // A stream of its own: a child inherits what `stdin` has read ahead. The stream reads nothing ahead: exit() in a
  // child sets the file back to where the child's copy of the stream is, and both share the place in the file.
  const int input = dup(STDIN_FILENO);
  const std::unique_ptr<FILE, int (*)(FILE*)> script(input < 0 ? nullptr : fdopen(input, "r"), &std::fclose);
  if (script == nullptr || setvbuf(script.get(), nullptr, _IONBF, 0) != 0) {
    app::fail(kProgram, "cannot read standard input");
  }
  std::string line;
  int code = app::kExitOk;
  for (uint64_t number = 1; read_line(script.get(), line); ++number) {
    const ShellWords found = split_command_line(line);
    if (found.words.empty()) continue;
    std::optional<int> ran = app::kExitUsage;
    std::string what = absl::StrCat("line ", number, ": a quote has no end");
    if (found.open_quote == 0) {
      ran = run_line(found.words, false);
      what = absl::StrCat("line ", number, " failed", keeps_going ? "" : "; the lines behind it did not run");
    }
    if (!ran.has_value()) return code;
    if (found.open_quote == 0) end_with_keys(*ran);
    if (*ran == app::kExitOk) continue;
    print_error(what);
    if (code == app::kExitOk) code = *ran;
    if (!keeps_going) return code;
  }
  if (std::ferror(script.get()) == 0) return code;
  print_error("cannot read standard input to its end");
  return code == app::kExitOk ? app::kExitFailure : code;
}

std::vector<std::string> Shell::names_of(const std::string& argument) {
  const bool is_table = argument == "table";
  if (!is_table && argument != "node") return {};
  // A user who waits for a completion waits a second at most.
  std::vector<std::string> words = flags_;
  std::erase_if(words, [](const std::string& flag) {
    return absl::StartsWith(flag, "--timeout=") || absl::StartsWith(flag, "--output=");
  });
  for (const char* word : {"--timeout=1s", "--output=json", is_table ? "table" : "node", "list"}) {
    words.emplace_back(word);
  }
  const nlohmann::json answer = nlohmann::json::parse(output_of([&] { return run_(words); }), nullptr, false);
  std::vector<std::string> names;
  if (!answer.is_array()) return names;
  for (const nlohmann::json& entry : answer) {
    if (!entry.is_object()) continue;
    const nlohmann::json name = entry.value(is_table ? "name" : "grpc_address", nlohmann::json());
    if (!name.is_string()) continue;
    // What a terminal would obey is not shown, and cannot be typed.
    std::string text = name.get<std::string>();
    if (printable(text) == text) names.push_back(std::move(text));
  }
  return names;
}

std::vector<std::string> Shell::complete(std::string_view line) {
  ShellWords found = split_command_line(line);
  if (found.open_quote != 0) return {};
  std::string begun;
  if (found.ends_in_word) {
    begun = std::move(found.words.back());
    found.words.pop_back();
  }
  if (!found.words.empty() && (found.words.front() == "help" || found.words.front() == kProgram)) {
    found.words.erase(found.words.begin());
  }
  app::NextWords next = app::next_words(program_, found.words, begun);
  if (found.words.empty()) {
    if (absl::StartsWith("exit", begun)) next.words.emplace_back("exit");
    std::erase(next.words, "shell");
  }
  for (std::string& name : names_of(next.argument)) {
    if (absl::StartsWith(name, begun)) next.words.push_back(std::move(name));
  }
  return std::move(next.words);
}

void add_shell_command(app::Program& program, Shell::RunFn run) {
  app::Command& command = program.add_command("shell", "Reads commands, from a terminal or from standard input.");
  command.description(
      "At a terminal `skuactl` without arguments does the same. Tab completes commands, options, tables and nodes. "
      "Each line is a command of skuactl without its name; blanks in a word need quotes; # begins a comment. Options "
      "of skuactl itself that are given to the shell hold for all its commands.\n\n"
      "A script stops at the first command that fails, and the exit code is that command's. Its commands cannot read "
      "standard input.");
  auto keeps_going = std::make_shared<bool>(false);
  command.add_bool("keep-going", keeps_going.get(), "A script goes on after a command that failed.");
  command.example("skuactl shell", "a prompt");
  command.example("skuactl --control-address 10.0.0.1:7400 shell <commands.txt", "each line a command");
  command.action([&program, run = std::move(run), keeps_going] {
    if (std::exchange(is_inside_shell, true)) fail_usage("this is the shell already");
    Shell shell(program, run);
    const bool has_user = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
    return has_user ? shell.converse() : shell.run_script(*keeps_going);
  });
}

}  // namespace skua::kv::ctl
