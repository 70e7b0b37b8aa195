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
    /// Earlier lines are read from there, and written there at the end. Empty: nowhere.
    std::string history_path = {};
    /// What the last word of this line, up to the cursor, may become: whole words. Runs inside read().
    std::function<std::vector<std::string>(std::string_view line)> complete = {};
  };

  explicit LineEditor(Options options);
  /// Writes the history. A history that cannot be written is lost without a word.
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line, without its line break. Nothing: the input has ended (Ctrl-D). Ctrl-C gives an empty line.
  [[nodiscard]] std::optional<std::string> read();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LINE_EDITOR_H_
