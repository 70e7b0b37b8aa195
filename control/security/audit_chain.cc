#include "control/security/audit_chain.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kHashText = 64;
constexpr std::string_view kHashMember = ",\"hash\":\"";
/// `,"hash":"` 64 digits `"}`
constexpr size_t kHashTail = kHashMember.size() + kHashText + 2;
/// An object, and `arguments` in it.
constexpr int kDepthMax = 2;

std::string time_text(WallMillis now) {
  const std::time_t seconds = now / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>(now % 1000));
  return text.data();
}

void add(Json& to, const AuditFields& fields) {
  for (const auto& [name, value] : fields) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      to[name] = printable(*text, kAuditTextMax);
    } else if (const auto* number = std::get_if<uint64_t>(&value)) {
      to[name] = *number;
    } else {
      to[name] = std::get<bool>(value);
    }
  }
}

absl::Status no_line(const char* why) {
  return absl::DataLossError(absl::StrCat("it is not a line of an audit log: ", why));
}

/// The object, or a discarded value. What is nested deeper than our lines are is not built: it could be deep without
/// end.
Json parse_flat(std::string_view text) {
  return Json::parse(
      text, [](int depth, Json::parse_event_t /*event*/, Json& /*parsed*/) { return depth < kDepthMax + 1; }, false);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : value.dump();
}

/// Empty if it is not there, or no text.
std::string member_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get_ref<const std::string&>() : std::string();
}

bool is_hash(std::string_view text) {
  return text.size() == kHashText &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string audit_hash(std::string_view bytes) {
  std::array<char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                              EVP_sha256(), nullptr);
  SKUA_CHECK(done == 1 && size * 2 == kHashText, "OpenSSL has SHA-256");
  return absl::BytesToHexString(absl::string_view(digest.data(), size));
}

std::string encode_audit_line(const AuditEntry& entry, WallMillis now, AuditHead& head) {
  Json object;
  object["seq"] = head.sequence + 1;
  object["time"] = time_text(now);
  object["event"] = entry.event;
  add(object, entry.fields);
  if (!entry.arguments.empty()) add(object["arguments"], entry.arguments);
  object["prev"] = head.hash;
  std::string line = object.dump();
  head = {head.sequence + 1, audit_hash(line)};
  line.pop_back();
  absl::StrAppend(&line, absl::string_view(kHashMember.data(), kHashMember.size()), head.hash, "\"}");
  return line;
}

absl::StatusOr<AuditLine> parse_audit_line(std::string_view line) {
  if (line.size() > kAuditLineMax) return no_line("it is too long");
  if (line.size() < kHashTail || line.substr(line.size() - kHashTail, kHashMember.size()) != kHashMember) {
    return no_line("it does not end with a hash");
  }
  std::string hashed(line.substr(0, line.size() - kHashTail));
  hashed += '}';
  const Json object = parse_flat(hashed);
  if (!object.is_object() || object.dump() != hashed) return no_line("it is no JSON as Skua writes it");
  AuditLine parsed;
  parsed.self.hash = line.substr(line.size() - kHashText - 2, kHashText);
  parsed.prev = member_text(object, "prev");
  parsed.time = member_text(object, "time");
  parsed.event = member_text(object, "event");
  const auto sequence = object.find("seq");
  if (sequence == object.end() || !sequence->is_number_unsigned() || parsed.time.empty() || parsed.event.empty() ||
      !is_hash(parsed.prev) || !is_hash(parsed.self.hash) || !line.ends_with("\"}")) {
    return no_line("it lacks a number, a time, an event or a hash");
  }
  parsed.self.sequence = sequence->get<uint64_t>();
  if (audit_hash(hashed) != parsed.self.hash) {
    return absl::DataLossError(absl::StrCat("its hash is not that of its content: line number ", parsed.self.sequence,
                                            " was changed after it was written"));
  }
  for (const auto& [name, value] : object.items()) {
    if (name == "seq" || name == "time" || name == "event" || name == "prev") continue;
    if (!value.is_structured()) {
      parsed.fields.emplace_back(name, text_of(value));
      continue;
    }
    for (const auto& [inner, argument] : value.items()) {
      parsed.fields.emplace_back(absl::StrCat(name, ".", inner), text_of(argument));
    }
  }
  return parsed;
}

absl::Status AuditVerifier::take(std::string_view line) {
  absl::StatusOr<AuditLine> parsed = parse_audit_line(line);
  if (!parsed.ok()) return parsed.status();
  const uint64_t found = parsed->self.sequence;
  const uint64_t expected = head_.sequence + 1;
  if (file_begins_ && parsed->event != kAuditBegin) {
    return absl::DataLossError(absl::StrCat("line number ", found,
                                            " is not one that a file begins with: lines before it "
                                            "were cut off"));
  }
  if (!first_) {
    if (found == 0 || (found == 1 && parsed->prev != AuditHead().hash)) {
      return absl::DataLossError("it is not the beginning of a chain, but has the number of one");
    }
  } else if (found > expected) {
    return absl::DataLossError(absl::StrCat("line number ", found, " follows number ", head_.sequence, ": ",
                                            found - expected, " in between are missing"));
  } else if (found < expected) {
    return absl::DataLossError(absl::StrCat("line number ", found, " follows number ", head_.sequence,
                                            ": it was inserted, or comes from another log"));
  } else if (parsed->prev != head_.hash) {
    return absl::DataLossError(absl::StrCat("line number ", found,
                                            " does not follow the line before it: that one is not "
                                            "the one that was there when this one was written"));
  }
  file_begins_ = false;
  head_ = parsed->self;
  last_time_ = parsed->time;
  if (!first_) first_ = *std::move(parsed);
  return absl::OkStatus();
}

}  // namespace skua::control
