#include "kvstore/ctl/table_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rpc/base/rng.h"

namespace skua::kv::ctl {
namespace {

using ::testing::HasSubstr;

std::string complaint(std::string_view line) {
  const absl::StatusOr<TableLine> row = parse_table_line(line);
  return row.ok() ? "none" : std::string(row.status().message());
}

TEST(TableLine, HasTextAsItIsAndOtherBytesInBase64) {
  EXPECT_EQ(line_of({"greeting", "hello"}), R"({"key":"greeting","value":"hello"})");
  EXPECT_EQ(line_of({"k", ""}), R"({"key":"k","value":""})");
  EXPECT_EQ(line_of({"\xff", std::string("\0\x80", 2)}), R"({"key_base64":"/w==","value_base64":"AIA="})");
  EXPECT_EQ(line_of({"a\"b\\", "gr\xc3\xbcn\n"}), R"({"key":"a\"b\\","value":"gr)"
                                                  "\xc3\xbc"
                                                  R"(n\n"})");
  EXPECT_EQ(line_of({"k", "v", {.tag = 7, .row = true}, std::chrono::minutes(30)}),
            R"({"key":"k","row":true,"tag":7,"ttl_ms":1800000,"value":"v"})");
}

TEST(TableLine, IsReadBack) {
  Rng rng(3);
  constexpr char kBytes[] = {'\0', 'a', '"', '\\', '\n', '\x7f', '\xc3', '\xbc', '\xff'};
  for (int i = 0; i < 5'000; ++i) {
    TableLine row{"k", ""};
    for (uint64_t left = rng.below(6); left > 0; --left) row.key.push_back(kBytes[rng.below(sizeof kBytes)]);
    for (uint64_t left = rng.below(6); left > 0; --left) row.value.push_back(kBytes[rng.below(sizeof kBytes)]);
    if (rng.below(2) == 0) row.mark = {static_cast<uint32_t>(rng.below(uint64_t{1} << 32)), rng.below(2) == 0};
    if (rng.below(2) == 0) row.ttl = std::chrono::milliseconds(rng.between(1, kTtlMsMax));
    const std::string line = line_of(row);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    const absl::StatusOr<TableLine> read = parse_table_line(line);
    ASSERT_TRUE(read.ok()) << read.status() << " " << line;
    ASSERT_EQ(*read, row) << line;
  }
}

TEST(TableLine, TheLargestRowFitsTheLimitOfALine) {
  const std::string line = line_of({std::string(kKeyBytesMax, '\x01'),
                                    std::string(kValueBytesMax, '\x01'),
                                    {UINT32_MAX, true},
                                    std::chrono::milliseconds(kTtlMsMax)});
  EXPECT_LE(line.size(), kTableLineBytesMax);
  EXPECT_TRUE(parse_table_line(line).ok());
}

TEST(TableLine, TakesWhatOthersWrite) {
  EXPECT_EQ(*parse_table_line("\xef\xbb\xbf { \"value\" : \"\\u00fc\", \"key\":\"k\" }\r"),
            (TableLine{"k", "\xc3\xbc"}));
  EXPECT_EQ(*parse_table_line(R"({"key_base64":"aw==","value":"v","row":false,"tag":0})"), (TableLine{"k", "v"}));
}

TEST(TableLine, SaysWhatIsWrong) {
  EXPECT_THAT(complaint(""), HasSubstr("no JSON"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"b")"), HasSubstr("no JSON from byte 23 on"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"b"} {)"), HasSubstr("no JSON from byte"));
  EXPECT_THAT(complaint("{\"key\":\"a\",\"value\":\"\xff\"}"), HasSubstr("no JSON from byte"));
  EXPECT_THAT(complaint(std::string(R"({"key":"a","value":"b"})") + '\0' + "rest"),
              HasSubstr("no JSON from byte 24 on: a zero byte"));
  for (const char* text : {"7", "null", "true", "1.5", "-1", "\"a\"", "[]", "[[[["}) {
    EXPECT_THAT(complaint(text), HasSubstr("is no JSON object such as")) << text;
  }
  EXPECT_THAT(complaint("{}"), HasSubstr("has no \"key\" and no \"key_base64\""));
  EXPECT_THAT(complaint(R"({"key":"a"})"), HasSubstr("has no \"value\""));
  EXPECT_THAT(complaint(R"({"key":"a","key_base64":"YQ==","value":""})"), HasSubstr("has both \"key\""));
  EXPECT_THAT(complaint(R"({"key":"a","key":"b","value":""})"), HasSubstr("has \"key\" twice"));
  EXPECT_THAT(complaint(R"({"key":"a","vaule":""})"), HasSubstr("has \"vaule\", which is none of"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","tag":-1})"), HasSubstr("\"tag\" of another type than a number"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","tag":1.5})"), HasSubstr("\"tag\" of another type"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","tag":"7"})"), HasSubstr("\"tag\" of another type"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","tag":4294967296})"), HasSubstr("4,294,967,295"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","row":1})"), HasSubstr("than true or false"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","ttl_ms":0})"), HasSubstr("ttl_ms"));
  EXPECT_THAT(complaint(R"({"key":"a","value":"","ttl_ms":99999999999999999999})"), HasSubstr("ttl_ms"));
  EXPECT_THAT(complaint(R"({"key":["a"],"value":""})"), HasSubstr("\"key\" of another type than text"));
  EXPECT_THAT(complaint(R"({"key":{"key":"a"},"value":""})"), HasSubstr("\"key\" of another type"));
  EXPECT_THAT(complaint(R"({"key_base64":"a b!","value":""})"), HasSubstr("no base64 in \"key_base64\""));
  EXPECT_THAT(complaint(R"({"key":"","value":""})"), HasSubstr("key"));
  EXPECT_THAT(complaint("{\"value\":\"\",\"key\":\"" + std::string(kKeyBytesMax + 1, 'k') + "\"}"),
              HasSubstr("1,025 bytes"));
  EXPECT_THAT(complaint("{\"key\":\"k\",\"value\":\"" + std::string(kValueBytesMax + 1, 'v') + "\"}"),
              HasSubstr("16,777,217 bytes"));
  EXPECT_LT(complaint("{\"" + std::string(1 << 20, 'n') + "\":1}").size(), 300u);
}

}  // namespace
}  // namespace skua::kv::ctl
