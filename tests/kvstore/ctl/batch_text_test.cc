#include "kvstore/ctl/batch_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skua::kv::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure(std::string_view text) {
  Batch batch;
  return std::string(parse_batch(text, batch).message());
}

TEST(SplitWords, QuotesAndEscapes) {
  EXPECT_THAT(*split_words("  put\tk  v "), ElementsAre("put", "k", "v"));
  EXPECT_THAT(*split_words(R"(put "a b" "x\n\"y\"" "")"), ElementsAre("put", "a b", "x\n\"y\"", ""));
  EXPECT_THAT(*split_words(""), ElementsAre());
  EXPECT_FALSE(split_words(R"(put "a)").ok());
  EXPECT_FALSE(split_words(R"(put "a\)").ok());
  EXPECT_FALSE(split_words(R"(put "a"b)").ok());
  EXPECT_FALSE(split_words(R"(put "\q")").ok());
}

TEST(ParseBatch, EachOperation) {
  Batch batch;
  const absl::Status parsed = parse_batch(R"(# a comment
put a "one two" --if-absent --ttl 30s
put b 1 --if-version 7

add n -5
append log more
patch row f=v g=a=b --create
expire a never
  expire a 2h
del old --if-version 3)",
                                          batch);
  ASSERT_TRUE(parsed.ok()) << parsed;
  EXPECT_EQ(batch.size(), 8u);
  EXPECT_TRUE(batch.status().ok());
}

TEST(ParseBatch, NamesTheLineAndWhatIsWrong) {
  EXPECT_EQ(failure("add n 1\n\nput a"), "line 3: put wants KEY VALUE");
  EXPECT_THAT(failure("jump a"), HasSubstr("line 1: unknown operation jump"));
  EXPECT_THAT(failure("add n x"), HasSubstr("line 1: add wants KEY DELTA"));
  EXPECT_THAT(failure("add n"), HasSubstr("add wants KEY DELTA"));
  EXPECT_THAT(failure("del"), HasSubstr("del wants KEY"));
  EXPECT_THAT(failure("expire k soon"), HasSubstr("line 1"));
  EXPECT_THAT(failure("patch k f"), HasSubstr("FIELD=VALUE"));
  EXPECT_THAT(failure("put k v --ttl"), HasSubstr("--ttl wants a value"));
  EXPECT_THAT(failure("put k v --if-version x"), HasSubstr("--if-version wants a number"));
  EXPECT_THAT(failure("put k v --fast"), HasSubstr("unknown option --fast"));
  EXPECT_THAT(failure("put k v --if-absent --if-version 1"), HasSubstr("not both"));
  EXPECT_THAT(failure("del k --if-absent"), HasSubstr("line 1"));
  EXPECT_THAT(failure("add n 1 --ttl 5s"), HasSubstr("time to live"));
}

}  // namespace
}  // namespace skua::kv::ctl
