// With toml++, which no header of ours shows.
#include <toml++/toml.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/config_internal.h"
#include "app/file.h"
#include "app/value_text.h"
#include "rpc/base/nearest_name.h"
#include "rpc/base/printable.h"

namespace skua::app {

namespace {

constexpr size_t kFileBytesMax = 1 << 20;

// Applies the tables of one file; remembers the path for messages.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  absl::Status apply_table(const Command& command, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      absl::Status status = apply_entry(command, name, node);
      if (!status.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(where(node), std::string(status.message())));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string where(const toml::node& node) {
    if (located_) return "";  // an inner table's error has its line already
    located_ = true;
    return absl::StrCat(path_, ":", node.source().begin.line, ": ");
  }

  absl::Status apply_entry(const Command& command, const std::string& name, const toml::node& node) {
    if (const toml::table* table = node.as_table()) {
      if (const Command* inner = find_command(command, name)) return apply_table(*inner, *table);
    }
    for (const auto& option : command.state().options) {
      OptionState& state = option->state();
      if (state.flag_only || state.standard || file_key(state) != name) continue;
      absl::StatusOr<std::vector<std::string>> texts = texts_of(state, node);
      absl::Status status = texts.ok() ? assign(state, *texts, Origin::kFile, path_) : texts.status();
      if (status.ok()) return status;
      return absl::InvalidArgumentError(absl::StrCat(name, " ", std::string(status.message())));
    }
    return unknown(command, name, node.is_table());
  }

  static absl::Status unknown(const Command& command, const std::string& name, bool is_table) {
    std::vector<std::string> names;
    for (const auto& option : command.state().options) {
      const OptionState& state = option->state();
      if (!state.flag_only && !state.standard && !state.hidden) names.push_back(file_key(state));
    }
    for (const auto& inner : command.state().commands) {
      if (is_table) names.push_back(inner->state().name);
    }
    const std::optional<std::string> near = nearest_name(name, names);
    return absl::InvalidArgumentError(
        absl::StrCat("unknown ", is_table ? absl::StrCat("table [", name, "]") : absl::StrCat("key ", name),
                     near ? absl::StrCat("; did you mean ", *near, "?") : ""));
  }

  // The node as the texts that a command line would have; the node's own type must fit.
  static absl::StatusOr<std::vector<std::string>> texts_of(const OptionState& option, const toml::node& node) {
    if (option.type == OptionType::kList) {
      const toml::array* array = node.as_array();
      if (array == nullptr) return absl::InvalidArgumentError("must be an array of strings");
      std::vector<std::string> texts;
      for (const toml::node& item : *array) {
        if (!item.is_string()) return absl::InvalidArgumentError("must be an array of strings");
        texts.push_back(item.as_string()->get());
      }
      return texts;
    }
    const bool wants_number = option.type == OptionType::kInt || option.type == OptionType::kDouble;
    if (node.is_string() && !wants_number && option.type != OptionType::kBool) {
      return std::vector<std::string>{node.as_string()->get()};
    }
    const bool takes_integer = wants_number || option.type == OptionType::kSize || option.type == OptionType::kDuration;
    if (node.is_integer() && takes_integer) {
      return std::vector<std::string>{absl::StrCat(node.as_integer()->get())};
    }
    if (node.is_floating_point() && option.type == OptionType::kDouble) {
      return std::vector<std::string>{format_double(node.as_floating_point()->get())};
    }
    if (node.is_boolean() && option.type == OptionType::kBool) {
      return std::vector<std::string>{node.as_boolean()->get() ? "true" : "false"};
    }
    return absl::InvalidArgumentError(absl::StrCat("must be ", wanted(option.type)));
  }

  static std::string wanted(OptionType type) {
    switch (type) {
      case OptionType::kBool: return "true or false, without quotes";
      case OptionType::kInt: return "a whole number, without quotes";
      case OptionType::kDouble: return "a number, without quotes";
      case OptionType::kDuration: return "a string such as \"500ms\"";
      case OptionType::kSize: return "a whole number of bytes or a string such as \"64MiB\"";
      default: return "a string, in quotes";
    }
  }

  const std::string& path_;
  bool located_ = false;
};

// The parser's words; what it says of its own work is left out.
std::string words_of(std::string text) {
  constexpr std::string_view kAgain = "cannot redefine existing ";
  if (const size_t again = text.find(kAgain); again != std::string::npos) {
    const size_t quote = text.find('\'', again);
    if (quote != std::string::npos) return absl::StrCat("there is a second ", text.substr(quote), ": leave one out");
  }
  if (const size_t doing = text.find(": "); absl::StartsWith(text, "Error while ") && doing != std::string::npos) {
    text = text.substr(doing + 2);
  }
  return absl::StrCat(text, "; lines of this file look like some_name = \"text\" or some_name = 7");
}

}  // namespace

absl::Status apply_config_file(const Command& root, const std::string& path, const std::string& named_by) {
  const absl::StatusOr<std::string> text = read_file(path, kFileBytesMax);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(named_by, " names no configuration file: ", std::string(text.status().message())));
  }
  if (!is_utf8(*text) || text->find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(named_by, " names no configuration file: ", path, " is not text in UTF-8"));
  }
  try {
    const toml::table table = toml::parse(*text, path);
    return FileReader(path).apply_table(root, table);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line, ": ", words_of(std::string(error.description()))));
  }
}

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\t': quoted += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          quoted += absl::StrCat("\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + "\"";
}

}  // namespace skua::app
