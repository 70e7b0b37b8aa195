#include "kvstore/ctl/batch_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace skua::kv::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure(std::string_view text) {
  Batch batch;
  std::vector<size_t> lines;
  return std::string(parse_batch(text, batch, lines).message());
}

std::vector<std::string> texts(std::string_view line) {
  std::vector<std::string> out;
  const auto words = split_words(line);
  for (const BatchWord& word : *words) out.push_back(word.text);
  return out;
}

TEST(SplitWords, QuotesAndEscapes) {
  EXPECT_THAT(texts("  put\tk  v "), ElementsAre("put", "k", "v"));
  EXPECT_THAT(texts(R"(put "a b" "x\n\"y\"" "")"), ElementsAre("put", "a b", "x\n\"y\"", ""));
  EXPECT_THAT(*split_words(R"(--a "--b")"), ElementsAre(BatchWord{"--a", false}, BatchWord{"--b", true}));
  EXPECT_THAT(*split_words(""), ElementsAre());
  EXPECT_FALSE(split_words(R"(put "a)").ok());
  EXPECT_FALSE(split_words(R"(put "a\)").ok());
  EXPECT_FALSE(split_words(R"(put "a"b)").ok());
  EXPECT_FALSE(split_words(R"(put "\q")").ok());
}

TEST(ParseBatch, EachOperation) {
  Batch batch;
  std::vector<size_t> lines;
  const absl::Status parsed = parse_batch(R"(# a comment
put a "one two" --if-absent --ttl 30s
put b 1 --if-version 7

add n -5
append log more
patch row f=v g=a=b --create
expire a never
  expire a 2h
del old --if-version 3
check seen 4
check none 0)",
                                          batch, lines);
  ASSERT_TRUE(parsed.ok()) << parsed;
  EXPECT_EQ(batch.size(), 10u);
  EXPECT_TRUE(batch.status().ok());
  EXPECT_THAT(lines, ElementsAre(2, 3, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST(ParseBatch, QuotedWordsAreNoOptions) {
  Batch batch;
  std::vector<size_t> lines;
  EXPECT_TRUE(parse_batch(R"(put "--ttl" "--if-absent")", batch, lines).ok());
  EXPECT_EQ(batch.size(), 1u);
  EXPECT_THAT(failure("put --key v"), HasSubstr("quote a word that is no option"));
}

TEST(ParseBatch, TakesWhatEditorsOnWindowsWrite) {
  Batch batch;
  std::vector<size_t> lines;
  EXPECT_TRUE(parse_batch("\xef\xbb\xbfput k v\r\n\r\n# done\r\nput \"l\" \"w\"\r\n", batch, lines).ok());
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_THAT(lines, ElementsAre(1, 4));
  EXPECT_THAT(failure("\xff\xfep\0u\0t\0"), HasSubstr("UTF-8"));
}

TEST(ParseTtl, TakesWhatCanBeMeant) {
  EXPECT_EQ(*parse_ttl("30s"), std::chrono::seconds(30));
  EXPECT_EQ(*parse_ttl("1ms"), std::chrono::milliseconds(1));
  EXPECT_TRUE(parse_ttl("876000h").ok()) << "100 years";
  for (const char* text : {"0", "0s", "999us", "-1s", "soon", "", "5", "876601h"}) {
    EXPECT_FALSE(parse_ttl(text).ok()) << text;
  }
  EXPECT_THAT(std::string(parse_ttl("0").status().message()), HasSubstr("1ms at least"));
  EXPECT_THAT(std::string(parse_ttl("7d").status().message()), HasSubstr("a day is 24h"));
  EXPECT_THAT(std::string(parse_ttl("900000h").status().message()), HasSubstr("100 years"));
}

TEST(ParseBatch, NamesTheLineAndWhatIsWrong) {
  EXPECT_EQ(failure("add n 1\n\nput a"), "line 3: put wants KEY VALUE");
  EXPECT_THAT(failure("jump a"), HasSubstr("line 1: unknown operation jump; there are put, add,"));
  EXPECT_EQ(failure("put k v\nappend k v\nexipre k 5s"), "line 3: unknown operation exipre; did you mean expire?");
  EXPECT_THAT(failure("put k v --if-abset"), HasSubstr("did you mean --if-absent?"));
  EXPECT_THAT(failure("--if-absent"), HasSubstr("line 1: an operation is missing"));
  EXPECT_EQ(failure("put \"\" v"), "line 1: the key is empty; it must have 1 byte at least");
  EXPECT_THAT(failure("put k v --ttl 0"), HasSubstr("1ms at least"));
  EXPECT_THAT(failure("expire k 0"), HasSubstr("never"));
  EXPECT_EQ(failure("put k v --create"), "line 1: --create is for patch");
  EXPECT_THAT(failure("add k 1 --ttl 5s"), HasSubstr("--ttl is for put"));
  EXPECT_THAT(failure("expire k 5s --ttl 6s"), HasSubstr("--ttl is for put"));
  EXPECT_THAT(failure("put k v --if-absent --if-version 1"),
              HasSubstr("give one of --if-absent, --if-present and --if-version"));
  for (const char* text : {"del k --if-absent", "expire k 5s --if-absent", "patch k f=v --if-absent"}) {
    EXPECT_THAT(failure(text), HasSubstr("--if-absent is for put, add and append")) << text;
  }
  EXPECT_EQ(failure("patch k f=v --if-absent --create"), "");
  EXPECT_THAT(failure("patch k =v"), HasSubstr("FIELD=VALUE"));
  EXPECT_THAT(failure("add n x"), HasSubstr("line 1: add wants KEY DELTA"));
  EXPECT_THAT(failure("add n"), HasSubstr("add wants KEY DELTA"));
  EXPECT_THAT(failure("del"), HasSubstr("del wants KEY"));
  EXPECT_THAT(failure("expire k soon"), HasSubstr("line 1"));
  EXPECT_THAT(failure("check k"), HasSubstr("check wants KEY VERSION"));
  EXPECT_THAT(failure("check k x"), HasSubstr("check wants KEY VERSION"));
  EXPECT_THAT(failure("check k 1 --if-absent"), HasSubstr("takes no other"));
  EXPECT_THAT(failure("check k 1 --ttl 5s"), HasSubstr("--ttl is for put"));
  EXPECT_THAT(failure("patch k f"), HasSubstr("FIELD=VALUE"));
  EXPECT_THAT(failure("put k v --ttl"), HasSubstr("--ttl wants a value"));
  EXPECT_THAT(failure("put k v --if-version x"), HasSubstr("--if-version wants a number"));
  EXPECT_THAT(failure("put k v --fast"), HasSubstr("unknown option --fast"));
  EXPECT_THAT(failure("put k v --if-present --if-version 1"), HasSubstr("give one of"));
  EXPECT_THAT(failure("put k v --ttl 5s --keep-ttl"), HasSubstr("not both"));
  EXPECT_THAT(failure("add k 1 --keep-ttl"), HasSubstr("--keep-ttl is for put"));
  EXPECT_THAT(failure("patch k f=v --create --if-present"), HasSubstr("--if-present forbids"));
  EXPECT_EQ(failure("put k v --if-present --keep-ttl"), "");
  EXPECT_EQ(failure("put k v --tag 4294967295"), "");
  EXPECT_THAT(failure("put k v --tag 4294967296"), HasSubstr("--tag wants a number of 32 bits"));
  EXPECT_THAT(failure("add k 1 --tag 1"), HasSubstr("--tag is for put"));
  EXPECT_THAT(failure("del k --if-absent"), HasSubstr("line 1"));
  EXPECT_THAT(failure("add n 1 --ttl 5s"), HasSubstr("time to live"));
}

}  // namespace
}  // namespace skua::kv::ctl
