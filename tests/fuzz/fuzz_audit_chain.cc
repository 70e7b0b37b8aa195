// An audit log as skuactl reads it. The first byte picks what it is:
//
//     lines as they come; lines whose hashes are right, whatever is in them
//     a log of ours that was damaged: what is still taken is what was written
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/security/audit_chain.h"
#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::control {
namespace {

using fuzz::FuzzInput;

/// The whole lines of a text.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void check_line(const std::string& line) {
  const auto parsed = parse_audit_line(line);
  if (!parsed.ok()) {
    SKUA_CHECK(!parsed.status().message().empty(), "a refusal without a word");
    return;
  }
  const std::string end = absl::StrCat(",\"hash\":\"", parsed->self.hash, "\"}");
  SKUA_CHECK(line.ends_with(end), "the hash stands at the end");
  SKUA_CHECK(audit_hash(line.substr(0, line.size() - end.size()) + "}") == parsed->self.hash, "and is the line's own");
  SKUA_CHECK(line.size() <= kAuditLineMax, "lines are bounded");
}

void fuzz_lines(const std::string& text) {
  AuditVerifier verifier;
  for (const std::string& line : split(text)) {
    check_line(line);
    const AuditHead before = verifier.head();
    const bool is_first = !verifier.first().has_value();
    const bool taken = verifier.take(line).ok();
    SKUA_CHECK(taken || verifier.head() == before, "a bad line does not move the chain");
    SKUA_CHECK(!taken || is_first || verifier.head().sequence == before.sequence + 1, "numbers have no gap");
  }
}

/// The fuzzer need not guess a hash.
void fuzz_hashed(const std::string& text) {
  std::string hashed;
  for (const std::string& line : split(text + "\n")) {
    const std::string object = line + "}";
    absl::StrAppend(&hashed, line, ",\"hash\":\"", audit_hash(object), "\"}\n");
  }
  fuzz_lines(hashed);
}

void fuzz_damaged(FuzzInput& in) {
  AuditHead head;
  std::string good = encode_audit_line({.event = kAuditBegin}, 0, head) + "\n";
  for (size_t i = in.pick(6); i > 0; --i) {
    const AuditEntry entry{.event = "call",
                           .fields = {{"who", in.short_text()}, {"left_out", in.near(0)}},
                           .arguments = {{"name", in.short_text()}, {"force", in.flag()}}};
    absl::StrAppend(&good, encode_audit_line(entry, static_cast<WallMillis>(in.number<uint32_t>()), head), "\n");
  }
  const std::vector<std::string> written = split(good);
  std::string found = good;
  in.damage(found);
  in.damage(found);
  AuditVerifier verifier;
  size_t taken = 0;
  for (const std::string& line : split(found)) {
    if (!verifier.take(line).ok()) break;
    SKUA_CHECK(taken < written.size() && line == written[taken], "another line than was written is taken");
    ++taken;
  }
  SKUA_CHECK(found != good || taken == written.size(), "what was not changed is taken");
}

}  // namespace
}  // namespace skua::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::fuzz::FuzzInput in({reinterpret_cast<const std::byte*>(data), size});
  switch (in.pick(3)) {
    case 0: skua::control::fuzz_lines(std::string(skua::as_string_view(in.take_rest()))); break;
    case 1: skua::control::fuzz_hashed(std::string(skua::as_string_view(in.take_rest()))); break;
    default: skua::control::fuzz_damaged(in);
  }
  return 0;
}
