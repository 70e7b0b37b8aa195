#include "kvstore/ctl/batch_text.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "app/value_text.h"
#include "rpc/base/nearest_name.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

absl::Status wrong(std::string_view what) {
  return absl::InvalidArgumentError(absl_view(what));
}

constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

/// The options that have no value.
constexpr std::pair<std::string_view, bool BatchOpOptions::*> kFlags[] = {
    {"--if-absent", &BatchOpOptions::if_absent},
    {"--if-present", &BatchOpOptions::if_present},
    {"--keep-ttl", &BatchOpOptions::keep_ttl},
    {"--create", &BatchOpOptions::create_if_missing},
};

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::optional<std::string> near = nearest_name(word, names);
  return near ? absl::StrCat("; did you mean ", *near, "?") : std::string();
}

/// One line: its words without options, and its options.
struct Line {
  std::vector<std::string> words;
  BatchOpOptions options;
};

/// Takes the option at `words[i]`. If the option has a value, moves `i` to it.
absl::Status take_option(const std::vector<BatchWord>& words, size_t& i, BatchOpOptions& options_of_line) {
  const std::string& name = words[i].text;
  for (const auto& [flag, member] : kFlags) {
    if (name != flag) continue;
    options_of_line.*member = true;
    return absl::OkStatus();
  }
  if (name != "--if-version" && name != "--ttl" && name != "--tag") {
    static const std::vector<std::string> kOptions = {"--if-version", "--if-absent", "--if-present", "--ttl",
                                                      "--keep-ttl",   "--create",    "--tag"};
    const std::string near = did_you_mean(name, kOptions);
    return absl::InvalidArgumentError(
        absl::StrCat("unknown option ", printable(name), near,
                     near.empty() ? "; there are --if-version N, --if-absent, --if-present, --ttl "
                                    "TTL, --keep-ttl, --tag N, --create; quote a word that is no option"
                                  : ""));
  }
  if (++i == words.size()) return absl::InvalidArgumentError(absl::StrCat(name, " wants a value"));
  const std::string& value = words[i].text;
  if (name == "--ttl") {
    const auto ttl = parse_ttl(value);
    if (!ttl.ok()) return absl::InvalidArgumentError(absl::StrCat("--ttl ", ttl.status().message()));
    options_of_line.ttl = *ttl;
    return absl::OkStatus();
  }
  if (name == "--tag") {
    if (absl::SimpleAtoi(value, &options_of_line.mark.tag)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--tag wants a number of 32 bits, not ", printable(value)));
  }
  uint64_t version = 0;
  if (!absl::SimpleAtoi(value, &version)) {
    return absl::InvalidArgumentError(absl::StrCat("--if-version wants a number, not ", printable(value)));
  }
  options_of_line.if_version = version;
  return absl::OkStatus();
}

absl::StatusOr<Line> read_line(std::string_view text) {
  const absl::StatusOr<std::vector<BatchWord>> words = split_words(text);
  if (!words.ok()) return words.status();
  Line line;
  for (size_t i = 0; i < words->size(); ++i) {
    const BatchWord& word = (*words)[i];
    if (word.quoted || !absl::StartsWith(word.text, "--")) {
      line.words.push_back(word.text);
    } else if (absl::Status status = take_option(*words, i, line.options); !status.ok()) {
      return status;
    }
  }
  return line;
}

/// An error if the operation does not take one of the options. The error uses the option's name in the text (--ttl).
absl::Status check_options(const std::string& name, const BatchOpOptions& given) {
  const bool is_put = name == "put";
  const bool is_patch = name == "patch";
  const bool has_ttl = given.ttl.count() != 0;
  const int conditions = int{given.if_absent} + int{given.if_present} + int{given.if_version.has_value()};
  const bool makes_no_key = name == "del" || name == "expire" || (is_patch && !given.create_if_missing);
  // The first that holds is told.
  const std::pair<bool, std::string_view> faults[] = {
      {name == "check" && conditions > 0, "check is a condition; it takes no other"},
      {given.create_if_missing && !is_patch, "--create is for patch"},
      {has_ttl && !is_put, "--ttl is for put; expire KEY TTL gives a time to live to a key that is there"},
      {given.mark.tag != 0 && !is_put, "--tag is for put; the others keep it"},
      {given.keep_ttl && !is_put, "--keep-ttl is for put; the others keep it anyhow"},
      {given.keep_ttl && has_ttl, "give --ttl or --keep-ttl, not both"},
      {conditions > 1, "give one of --if-absent, --if-present and --if-version"},
      {given.if_present && given.create_if_missing, "--create makes a key that is missing, which --if-present forbids"},
      {given.if_absent && makes_no_key, "--if-absent is for put, add and append, and for patch with --create"},
  };
  for (const auto& [is_there, what] : faults) {
    if (is_there) return wrong(what);
  }
  return absl::OkStatus();
}

absl::Status add_patch(const Line& line, Batch& batch) {
  if (line.words.size() < 3) return wrong("patch wants KEY FIELD=VALUE...");
  std::vector<FieldUpdate> fields;
  for (size_t i = 2; i < line.words.size(); ++i) {
    const std::string_view word = line.words[i];
    const size_t at = word.find('=');
    if (at == std::string_view::npos || at == 0) return wrong("a field of patch is FIELD=VALUE");
    fields.push_back({word.substr(0, at), word.substr(at + 1)});
  }
  return batch.patch(line.words[1], fields, line.options).status();
}

absl::Status add_check(const Line& line, Batch& batch) {
  uint64_t version = 0;
  if (line.words.size() != 3 || !absl::SimpleAtoi(line.words[2], &version)) {
    return wrong("check wants KEY VERSION; version 0: the key is absent");
  }
  return batch.check(line.words[1], version).status();
}

absl::Status add_line(const Line& line, Batch& batch) {
  const std::vector<std::string>& words = line.words;
  if (words.empty()) return wrong("an operation is missing before the options");
  const std::string& name = words[0];
  static const std::vector<std::string> kVerbs = {"put", "add", "append", "patch", "expire", "del", "check"};
  if (std::ranges::find(kVerbs, name) == kVerbs.end()) {
    const std::string near = did_you_mean(name, kVerbs);
    return wrong(absl::StrCat("unknown operation ", printable(name), near,
                              near.empty() ? absl::StrCat("; there are ", absl::StrJoin(kVerbs, ", ")) : ""));
  }
  if (absl::Status status = check_options(name, line.options); !status.ok()) return status;
  const auto has = [&](size_t arguments) { return words.size() == 1 + arguments; };
  if (name == "patch") return add_patch(line, batch);
  if (name == "check") return add_check(line, batch);
  if (name == "del") return has(1) ? batch.remove(words[1], line.options).status() : wrong("del wants KEY");
  if ((name == "put" || name == "append") && !has(2)) return wrong(name + " wants KEY VALUE");
  if (name == "put") return batch.put(words[1], words[2], line.options).status();
  if (name == "append") return batch.append(words[1], words[2], line.options).status();
  if (name == "add") {
    int64_t delta = 0;
    if (!has(2) || !absl::SimpleAtoi(words[2], &delta)) return wrong("add wants KEY DELTA, an integer of 64 bits");
    return batch.add(words[1], delta, line.options).status();
  }
  // expire
  if (!has(2)) return wrong("expire wants KEY TTL");
  if (words[2] == "never") return batch.expire(words[1], std::chrono::nanoseconds(0), line.options).status();
  const auto ttl = parse_ttl(words[2]);
  if (!ttl.ok()) return absl::InvalidArgumentError(absl::StrCat("TTL ", ttl.status().message(), "; or never"));
  return batch.expire(words[1], *ttl, line.options).status();
}

}  // namespace

absl::StatusOr<std::vector<BatchWord>> split_words(std::string_view line) {
  std::vector<BatchWord> words;
  size_t at = 0;
  for (;;) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size()) return words;
    const size_t start = at;
    if (line[at] != '"') {
      while (at < line.size() && !is_blank(line[at])) ++at;
      words.push_back({std::string(line.substr(start, at - start)), false});
      continue;
    }
    for (++at; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\') ++at;
    }
    if (at >= line.size()) return wrong("a quotation does not end");
    BatchWord word{.text = {}, .quoted = true};
    std::string error;
    if (!absl::CUnescape(absl_view(line.substr(start + 1, at - start - 1)), &word.text, &error)) return wrong(error);
    words.push_back(std::move(word));
    ++at;
    if (at < line.size() && !is_blank(line[at])) return wrong("a blank is missing behind a quotation");
  }
}

absl::Status parse_batch(std::string_view text, Batch& batch, std::vector<size_t>& lines) {
  if (text.substr(0, kUtf8Mark.size()) == kUtf8Mark) text.remove_prefix(kUtf8Mark.size());
  if (text.substr(0, 2) == "\xff\xfe" || text.substr(0, 2) == "\xfe\xff") {
    return wrong("line 1: the text is UTF-16; save it as UTF-8");
  }
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const size_t first = raw.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || raw[first] == '#') continue;
    const absl::StatusOr<Line> line = read_line(raw);
    const absl::Status status = line.ok() ? add_line(*line, batch) : line.status();
    if (!status.ok()) {
      // The batch's message has the number of the operation. Users count lines, so the line's number replaces it.
      absl::string_view why = status.message();
      if (absl::StartsWith(why, "BATCH operation ")) why.remove_prefix(why.find(": ") + 2);
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
    }
    lines.push_back(number);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::chrono::nanoseconds> parse_ttl(const std::string& text) {
  const absl::StatusOr<DurationNs> ttl_ns = app::parse_duration(text);
  if (!ttl_ns.ok()) {
    const bool days = absl::EndsWith(text, "d") || absl::EndsWith(text, "day") || absl::EndsWith(text, "days");
    return absl::InvalidArgumentError(absl::StrCat(ttl_ns.status().message(), days ? "; a day is 24h" : ""));
  }
  if (*ttl_ns < kMillisecond) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be 1ms at least, not ", text, "; a key that is to stay has none"));
  }
  return std::chrono::nanoseconds(*ttl_ns);
}

}  // namespace skua::kv::ctl
