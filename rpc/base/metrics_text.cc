#include "rpc/base/metrics_text.h"

#include <algorithm>

namespace skua {
namespace {

constexpr std::string_view kCounterSuffix = "_total";

/// Appends a line of a sample. OpenMetrics has no whole numbers as limits of buckets: le="1" becomes le="1.0".
void append_sample(std::string& out, std::string_view line) {
  constexpr std::string_view kLimit = "le=\"";
  const size_t labels = line.find('{');
  size_t begin = labels;
  // The name of a label begins behind { or a comma; another name may end with le.
  do {
    begin = begin == std::string_view::npos ? begin : line.find(kLimit, begin + 1);
  } while (begin != std::string_view::npos && line[begin - 1] != '{' && line[begin - 1] != ',');
  if (line.starts_with('#') || begin == std::string_view::npos) {
    out.append(line);
    return;
  }
  const size_t value = begin + kLimit.size();
  const size_t end = std::min(line.find('"', value), line.size());
  const std::string_view limit = line.substr(value, end - value);
  const bool is_whole = !limit.empty() && limit.find_first_not_of("0123456789") == std::string_view::npos;
  out.append(line.substr(0, end)).append(is_whole ? ".0" : "").append(line.substr(end));
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help);
  text_.append("\n# TYPE ").append(name).append(name.ends_with(kCounterSuffix) ? " counter\n" : " gauge\n");
}

void MetricsText::sample(std::string_view labels, uint64_t value) {
  text_ += name_;
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  text_.append(" ").append(std::to_string(value)).append("\n");
}

void MetricsText::single(std::string_view name, std::string_view help, uint64_t value) {
  family(name, help);
  sample({}, value);
}

std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string to_open_metrics(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      const size_t name_end = std::min(line.find(' ', sizeof "# HELP " - 1), line.size());
      std::string_view head = line.substr(0, name_end);
      if (head.ends_with(kCounterSuffix)) head.remove_suffix(kCounterSuffix.size());
      out.append(head).append(line.substr(name_end));
    } else {
      append_sample(out, line);
    }
    out += '\n';
  }
  return out + "# EOF\n";
}

}  // namespace skua
