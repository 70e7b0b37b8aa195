#include "kvstore/ctl/batch_text.h"

#include <chrono>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "app/value_text.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

absl::Status wrong(std::string_view what) {
  return absl::InvalidArgumentError(absl_view(what));
}

/// The operation of one line: its plain words and its options.
struct Line {
  std::vector<std::string> words;
  BatchOpOptions options;
};

absl::StatusOr<std::chrono::nanoseconds> ttl_of(const std::string& word) {
  if (word == "never") return std::chrono::nanoseconds(0);
  const absl::StatusOr<DurationNs> ttl_ns = app::parse_duration(word);
  if (!ttl_ns.ok()) return ttl_ns.status();
  return std::chrono::nanoseconds(*ttl_ns);
}

/// Takes the option at `words[i]`, and its value by moving `i`.
absl::Status take_option(const std::vector<std::string>& words, size_t& i, BatchOpOptions& options) {
  const std::string& name = words[i];
  if (name == "--if-absent") {
    options.if_absent = true;
    return absl::OkStatus();
  }
  if (name == "--create") {
    options.create_if_missing = true;
    return absl::OkStatus();
  }
  if (name != "--if-version" && name != "--ttl") {
    return wrong(std_view(
        absl::StrCat("unknown option ", name, "; there are --if-version N, --if-absent, --ttl TTL, --create")));
  }
  if (++i == words.size()) return wrong(absl::StrCat(name, " wants a value"));
  if (name == "--ttl") {
    const auto ttl = ttl_of(words[i]);
    if (!ttl.ok()) return ttl.status();
    options.ttl = *ttl;
    return absl::OkStatus();
  }
  uint64_t version = 0;
  if (!absl::SimpleAtoi(words[i], &version)) return wrong("--if-version wants a number");
  options.if_version = version;
  return absl::OkStatus();
}

absl::StatusOr<Line> read_line(std::string_view text) {
  const absl::StatusOr<std::vector<std::string>> words = split_words(text);
  if (!words.ok()) return words.status();
  Line line;
  for (size_t i = 0; i < words->size(); ++i) {
    if ((*words)[i].substr(0, 2) != "--") {
      line.words.push_back((*words)[i]);
    } else if (absl::Status status = take_option(*words, i, line.options); !status.ok()) {
      return status;
    }
  }
  return line;
}

absl::Status add_patch(const Line& line, Batch& batch) {
  if (line.words.size() < 3) return wrong("patch wants KEY FIELD=VALUE...");
  std::vector<FieldUpdate> fields;
  for (size_t i = 2; i < line.words.size(); ++i) {
    const std::string_view word = line.words[i];
    const size_t at = word.find('=');
    if (at == std::string_view::npos) return wrong("a field of patch is FIELD=VALUE");
    fields.push_back({word.substr(0, at), word.substr(at + 1)});
  }
  return batch.patch(line.words[1], fields, line.options).status();
}

absl::Status add_line(const Line& line, Batch& batch) {
  const std::vector<std::string>& words = line.words;
  const std::string name = words.empty() ? "" : words[0];
  const auto has = [&](size_t arguments) { return words.size() == 1 + arguments; };
  if (name == "patch") return add_patch(line, batch);
  if (name == "del") return has(1) ? batch.remove(words[1], line.options).status() : wrong("del wants KEY");
  if (name == "put") {
    return has(2) ? batch.put(words[1], words[2], line.options).status() : wrong("put wants KEY VALUE");
  }
  if (name == "append") {
    return has(2) ? batch.append(words[1], words[2], line.options).status() : wrong("append wants KEY VALUE");
  }
  if (name == "add") {
    int64_t delta = 0;
    if (!has(2) || !absl::SimpleAtoi(words[2], &delta)) return wrong("add wants KEY DELTA, an integer of 64 bits");
    return batch.add(words[1], delta, line.options).status();
  }
  if (name == "expire") {
    if (!has(2)) return wrong("expire wants KEY TTL");
    const auto ttl = ttl_of(words[2]);
    return ttl.ok() ? batch.expire(words[1], *ttl, line.options).status() : ttl.status();
  }
  return wrong(absl::StrCat("unknown operation ", name, "; there are put, add, append, patch, expire, del"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  for (;;) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size()) return words;
    const size_t start = at;
    if (line[at] != '"') {
      while (at < line.size() && !is_blank(line[at])) ++at;
      words.emplace_back(line.substr(start, at - start));
      continue;
    }
    for (++at; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\') ++at;
    }
    if (at >= line.size()) return wrong("a quotation does not end");
    std::string word;
    std::string error;
    if (!absl::CUnescape(absl_view(line.substr(start + 1, at - start - 1)), &word, &error)) return wrong(error);
    words.push_back(std::move(word));
    ++at;
    if (at < line.size() && !is_blank(line[at])) return wrong("a blank is missing behind a quotation");
  }
}

absl::Status parse_batch(std::string_view text, Batch& batch) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const size_t first = raw.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || raw[first] == '#') continue;
    const absl::StatusOr<Line> line = read_line(raw);
    const absl::Status status = line.ok() ? add_line(*line, batch) : line.status();
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace skua::kv::ctl
