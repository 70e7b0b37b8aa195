// LineEditor: reads lines that a user types, with a history and completion. The one place that knows libedit.
#ifndef SKUA_KVSTORE_CTL_LINE_EDITOR_H_
#define SKUA_KVSTORE_CTL_LINE_EDITOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skua::kv::ctl {

/// For standard input and output, which must be a terminal. Thread: one. Starts no threads.
class LineEditor {
 public:
  struct Options {
    const char* program = "";
    std::string prompt = {};
    /// A file. Earlier lines are read from there, and each line is added. Not those that begin with a blank, or have a
    /// join token. A line that cannot be written is not kept. Empty: no file.
    std::string history_path = {};
    /// What the last word of this line, up to the cursor, may become: whole words. Runs inside read().
    std::function<std::vector<std::string>(std::string_view line)> complete = {};
  };

  explicit LineEditor(Options options);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line, without its line break. Nothing: the input has ended (Ctrl-D, SIGTERM or SIGHUP). Ctrl-C gives an
  /// empty line.
  [[nodiscard]] std::optional<std::string> read();
  /// The signal that ended the input; 0: none did.
  [[nodiscard]] int ended_by() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LINE_EDITOR_H_
