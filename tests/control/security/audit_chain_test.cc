#include "control/security/audit_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace skua::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr WallMillis kNow = 1'795'747'160'123;  // 2026-11-27 02:39:20.123

AuditEntry call_of(const std::string& who, uint64_t shards = 4) {
  return {.event = "call",
          .fields = {{"who", who}, {"outcome", std::string("OK")}},
          .arguments = {{"name", std::string("notes")}, {"shards", shards}, {"force", true}}};
}

/// Of one file.
std::vector<std::string> some_lines(size_t count, const std::string& who = "admin/ada") {
  AuditHead head;
  std::vector<std::string> lines = {encode_audit_line({.event = kAuditBegin}, kNow, head)};
  while (lines.size() < count) {
    lines.push_back(encode_audit_line(call_of(who, lines.size()), kNow + static_cast<WallMillis>(lines.size()), head));
  }
  return lines;
}

/// The place of the first line that does not fit, from 1, and why; 0: all fit.
std::pair<size_t, std::string> first_bad(const std::vector<std::string>& lines) {
  AuditVerifier verifier;
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::Status status = verifier.take(lines[i]);
    if (!status.ok()) return {i + 1, std::string(status.message())};
  }
  return {0, ""};
}

TEST(AuditChain, ALineIsWhatItSays) {
  AuditHead head;
  const std::string line = encode_audit_line(call_of("admin/ada"), kNow, head);
  EXPECT_THAT(line, testing::StartsWith(
                        R"({"seq":1,"time":"2026-11-27T02:39:20.123Z","event":"call","who":"admin/ada","outcome":"OK",)"
                        R"("arguments":{"name":"notes","shards":4,"force":true},"prev":"0000)"));
  const auto parsed = parse_audit_line(line);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->self, head);
  EXPECT_EQ(parsed->self.sequence, 1U);
  EXPECT_EQ(parsed->prev, AuditHead().hash);
  EXPECT_EQ(parsed->event, "call");
  EXPECT_THAT(parsed->fields,
              ElementsAre(Pair("who", "admin/ada"), Pair("outcome", "OK"), Pair("arguments.name", "notes"),
                          Pair("arguments.shards", "4"), Pair("arguments.force", "true")));
}

/// Anybody can check it: echo -n LINE | sed 's/,"hash":"[0-9a-f]*"}$/}/' | sha256sum
TEST(AuditChain, TheHashIsOfTheLineWithoutIt) {
  AuditHead head;
  const std::string line = encode_audit_line({.event = "stop"}, 0, head);
  EXPECT_THAT(line, testing::StartsWith(R"({"seq":1,"time":"1970-01-01T00:00:00.000Z","event":"stop","prev":"00)"));
  EXPECT_EQ(head.hash, "48cc4ed19f6e0d1b0262b70d1b7e9509205244384b76754d833b6d726dc3da4b");
  EXPECT_TRUE(absl::EndsWith(line, absl::StrCat(",\"hash\":\"", head.hash, "\"}")));
}

TEST(AuditChain, APeersTextIsEscapedAndCut) {
  AuditHead head;
  const std::string nasty = std::string("a\"\n\x1b[31m\xff", 9) + std::string(5000, 'x');
  const std::string line = encode_audit_line({.event = "refused", .fields = {{"method", nasty}}}, kNow, head);
  EXPECT_LT(line.size(), 1000U);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT(line, HasSubstr(R"("method":"a\"\\x0a\\x1b[31m\\xff)"));
  EXPECT_TRUE(parse_audit_line(line).ok());
}

/// Many long texts, all of which are escaped, still make a line.
TEST(AuditChain, TheLongestLineIsNotTooLong) {
  AuditHead head;
  AuditEntry entry{.event = "call"};
  for (int i = 0; i < 20; ++i) entry.fields.emplace_back(absl::StrCat("f", i), std::string(5000, '"'));
  for (int i = 0; i < 20; ++i) entry.arguments.emplace_back(absl::StrCat("a", i), std::string(5000, '\\'));
  const std::string line = encode_audit_line(entry, kNow, head);
  EXPECT_LT(line.size(), kAuditLineMax);
  EXPECT_TRUE(parse_audit_line(line).ok());
}

TEST(AuditChain, AnUntouchedChainIsFine) {
  const std::vector<std::string> lines = some_lines(6);
  AuditVerifier verifier;
  for (const std::string& line : lines) ASSERT_TRUE(verifier.take(line).ok());
  EXPECT_EQ(verifier.first()->self.sequence, 1U);
  EXPECT_EQ(verifier.head().sequence, 6U);
  EXPECT_EQ(verifier.head().hash, parse_audit_line(lines.back())->self.hash);
  EXPECT_EQ(verifier.last_time(), "2026-11-27T02:39:20.128Z");
}

TEST(AuditChain, EachChangedByteIsFound) {
  const std::vector<std::string> lines = some_lines(3);
  for (size_t at = 0; at < lines[1].size(); ++at) {
    for (const char to : {'0', 'f', ' ', '"', '}', 'Z'}) {
      std::vector<std::string> changed = lines;
      if (changed[1][at] == to) continue;
      changed[1][at] = to;
      EXPECT_EQ(first_bad(changed).first, 2U) << changed[1];
    }
  }
}

/// Spaces, another order, names that are there twice: what a reader takes for the same is not the same line.
TEST(AuditChain, TheSameInOtherWordsIsFound) {
  const std::vector<std::string> lines = some_lines(2);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("seq":2)", R"("seq": 2)"},
           {R"("event":"call","who":"admin/ada")", R"("who":"admin/ada","event":"call")"},
           {R"("who":"admin/ada")", R"("who":"admin/ada","who":"admin/eve")"},
           {R"("admin/ada")", R"("admin\/ada")"},
           {R"(,"prev")", R"(,"more":[[[[1]]]],"prev")"},
       }) {
    std::vector<std::string> changed = lines;
    changed[1] = absl::StrReplaceAll(lines[1], {{from, to}});
    ASSERT_NE(changed[1], lines[1]);
    EXPECT_EQ(first_bad(changed).first, 2U) << changed[1];
  }
}

/// Also with a right hash: readers that differ in what they make of a line would see different things.
TEST(AuditChain, ALineHasOneForm) {
  for (const char* object : {
           R"({"seq": 1,"time":"t","event":"e","prev":"@"})",
           R"({"seq":1,"time":"t","event":"e","who":"a","who":"b","prev":"@"})",
           R"({"seq":1,"time":"t","event":"a\/b","prev":"@"})",
           R"({"seq":1,"time":"t","event":"e","more":{"a":{"b":{"c":1}}},"prev":"@"})",
           R"({"seq":1.0,"time":"t","event":"e","prev":"@"})",
           R"({"seq":-1,"time":"t","event":"e","prev":"@"})",
           R"({"seq":1,"time":"t","event":"e","prev":"x@"})",
           R"({"seq":1,"event":"e","prev":"@"})",
       }) {
    const std::string hashed = absl::StrReplaceAll(object, {{"@", AuditHead().hash}});
    const std::string line =
        absl::StrCat(hashed.substr(0, hashed.size() - 1), ",\"hash\":\"", audit_hash(hashed), "\"}");
    EXPECT_THAT(std::string(parse_audit_line(line).status().message()), HasSubstr("not a line of an audit log"))
        << line;
  }
}

TEST(AuditChain, ARemovedLineIsFound) {
  for (size_t at = 1; at < 5; ++at) {
    std::vector<std::string> lines = some_lines(6);
    lines.erase(lines.begin() + static_cast<ptrdiff_t>(at));
    const auto [bad, why] = first_bad(lines);
    EXPECT_EQ(bad, at + 1);
    EXPECT_THAT(why, HasSubstr("1 in between are missing"));
  }
}

TEST(AuditChain, LinesCutOffAtTheFrontAreFound) {
  std::vector<std::string> lines = some_lines(6);
  lines.erase(lines.begin(), lines.begin() + 2);
  const auto [bad, why] = first_bad(lines);
  EXPECT_EQ(bad, 1U);
  EXPECT_THAT(why, HasSubstr("lines before it were cut off"));
}

TEST(AuditChain, AnInsertedLineIsFound) {
  for (size_t at = 1; at <= 6; ++at) {
    std::vector<std::string> repeated = some_lines(6);
    repeated.insert(repeated.begin() + static_cast<ptrdiff_t>(at), repeated[at - 1]);
    EXPECT_EQ(first_bad(repeated).first, at + 1);
    EXPECT_THAT(first_bad(repeated).second, HasSubstr("it was inserted"));
    // One that fits by its number and by its own hash.
    std::vector<std::string> forged = some_lines(6);
    AuditHead head{at, std::string(64, 'a')};
    forged.insert(forged.begin() + static_cast<ptrdiff_t>(at), encode_audit_line(call_of("admin/eve"), kNow, head));
    EXPECT_EQ(first_bad(forged).first, at + 1);
    EXPECT_THAT(first_bad(forged).second, HasSubstr("does not follow the line before it"));
  }
}

TEST(AuditChain, ExchangedLinesAreFound) {
  std::vector<std::string> lines = some_lines(6);
  std::swap(lines[2], lines[3]);
  EXPECT_EQ(first_bad(lines).first, 3U);
}

/// A line that was made anew, with a right hash: what follows does not fit it.
TEST(AuditChain, AForgedLineIsFoundByTheNext) {
  std::vector<std::string> lines = some_lines(6);
  AuditHead head = parse_audit_line(lines[2])->self;
  lines[3] = encode_audit_line(call_of("admin/eve"), kNow, head);
  EXPECT_EQ(first_bad(lines).first, 5U);
}

/// What a chain cannot show by itself.
TEST(AuditChain, LinesCutOffAtTheEndShowOnlyByTheHead) {
  std::vector<std::string> lines = some_lines(6);
  lines.pop_back();
  EXPECT_EQ(first_bad(lines).first, 0U);
}

TEST(AuditChain, FilesJoin) {
  AuditHead head;
  std::vector<std::string> lines = {encode_audit_line({.event = kAuditBegin}, kNow, head)};
  lines.push_back(encode_audit_line(call_of("admin/ada"), kNow, head));
  const std::string second_begin = encode_audit_line({.event = kAuditBegin}, kNow, head);
  const std::string second_line = encode_audit_line(call_of("admin/ada"), kNow, head);
  AuditVerifier whole;
  for (const std::string& line : lines) ASSERT_TRUE(whole.take(line).ok());
  whole.next_file();
  EXPECT_TRUE(whole.take(second_begin).ok());
  EXPECT_TRUE(whole.take(second_line).ok());
  // Without the first file: that one may have been removed.
  AuditVerifier later;
  EXPECT_TRUE(later.take(second_begin).ok());
  EXPECT_EQ(later.first()->self.sequence, 3U);
  AuditVerifier cut;
  for (const std::string& line : lines) ASSERT_TRUE(cut.take(line).ok());
  cut.next_file();
  EXPECT_THAT(std::string(cut.take(second_line).message()), HasSubstr("cut off"));
}

TEST(AuditChain, AFirstNumberWithAChainBeforeItIsFound) {
  AuditHead head{0, std::string(64, 'a')};
  EXPECT_EQ(first_bad({encode_audit_line({.event = kAuditBegin}, kNow, head)}).first, 1U);
}

TEST(AuditChain, OtherTextsAreNoLines) {
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string(200, '{'), std::string(kAuditLineMax + 1, 'x'),
        some_lines(1)[0] + "\r", absl::StrCat(std::string(1000, '['), ",\"hash\":\"", std::string(64, 'a'), "\"}")}) {
    EXPECT_EQ(parse_audit_line(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace skua::control
