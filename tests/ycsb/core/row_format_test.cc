#include "ycsb/core/row_format.h"

#include <gtest/gtest.h>

namespace skua::ycsb {
namespace {

using std::string_literals::operator""s;

TEST(RowFormat, AppendRowField_GoldenBytes) {
  std::string row;
  append_row_field(row, "field0", "abc");
  append_row_field(row, "f1", "");
  EXPECT_EQ(row, "\x06\0\0\0field0\x03\0\0\0abc\x02\0\0\0f1\0\0\0\0"s);
}

TEST(RowFormat, DecodeRow_GivesBackWhatWasAppended) {
  std::string row;
  append_row_field(row, "field0", "abc");
  append_row_field(row, "f1", "");
  std::vector<NamedValue> fields;
  ASSERT_TRUE(decode_row(as_byte_span(row), fields));
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields[0].name, "field0");
  EXPECT_EQ(fields[0].value, "abc");
  EXPECT_EQ(fields[1].name, "f1");
  EXPECT_EQ(fields[1].value, "");
}

TEST(RowFormat, DecodeRow_EmptyRowHasNoFields) {
  std::vector<NamedValue> fields = {{"old", "old"}};
  EXPECT_TRUE(decode_row({}, fields));
  EXPECT_TRUE(fields.empty());
}

TEST(RowFormat, DecodeRow_EveryTruncationIsSeen) {
  std::string row;
  append_row_field(row, "field0", "abc");
  std::vector<NamedValue> fields;
  for (size_t size = 1; size < row.size(); ++size)
    EXPECT_FALSE(decode_row(as_byte_span(row).first(size), fields)) << size;
}

TEST(RowFormat, DecodeRow_LyingLengthIsSeen) {
  std::vector<NamedValue> fields;
  EXPECT_FALSE(decode_row(as_byte_span("\xff\xff\xff\xff"
                                       "abc"),
                          fields));
}

}  // namespace
}  // namespace skua::ycsb
