#include "rpc/wire/read_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/rpc/wire/wire_testing.h"

namespace skua::rpc {
namespace {

using testing::from_hex;
using testing::to_hex;

ReadList sample() {
  ReadList list;
  list.connection = 0x0102030405060708;
  list.head = as_byte_span("hd");
  list.span_count = 2;
  list.spans[0] = {0x1122334455667788, 0xa1a2a3a4, 4096};
  list.spans[1] = {0x10, 7, 1};
  return list;
}

std::string encoded(const ReadList& list) {
  std::vector<std::byte> bytes(list.encoded_bytes());
  EXPECT_EQ(list.encode(bytes), bytes.size());
  return std::string(as_string_view(bytes));
}

TEST(ReadList, Golden) {
  EXPECT_EQ(to_hex(encoded(sample())),
            "02000200"
            "0807060504030201"
            "6864"
            "8877665544332211a4a3a2a100100000"
            "10000000000000000700000001000000");
  EXPECT_EQ(sample().message_bytes(), 2u + 4096 + 1);
}

TEST(ReadList, Decode_GivesBackWhatWasEncoded) {
  const std::string bytes = encoded(sample());
  ReadList out;
  ASSERT_TRUE(ReadList::decode(as_byte_span(bytes), out));
  EXPECT_EQ(as_string_view(out.head), "hd");
  EXPECT_EQ(out.connection, 0x0102030405060708u);
  ASSERT_EQ(out.span_count, 2u);
  EXPECT_EQ(out.spans[0], sample().spans[0]);
  EXPECT_EQ(out.spans[1], sample().spans[1]);
}

TEST(ReadList, Decode_RefusesEveryOtherLength) {
  const std::string bytes = encoded(sample());
  ReadList out;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ReadList::decode(as_byte_span(bytes).first(size), out)) << size;
  }
  EXPECT_FALSE(ReadList::decode(as_byte_span(bytes + "x"), out));
}

TEST(ReadList, Decode_RefusesNoConnectionNoSpansTooManyAndEmptyOnes) {
  ReadList out;
  const std::string connection = "0100000000000000";
  const std::string span = "8877665544332211 a4a3a2a1 00100000";
  EXPECT_FALSE(ReadList::decode(as_byte_span(from_hex("0000 00 00" + connection)), out));
  EXPECT_FALSE(
      ReadList::decode(as_byte_span(from_hex("0000 05 00" + connection + span + span + span + span + span)), out));
  EXPECT_FALSE(ReadList::decode(as_byte_span(from_hex("0000 01 01" + connection + span)), out));
  EXPECT_FALSE(
      ReadList::decode(as_byte_span(from_hex("0000 01 00" + connection + "8877665544332211 a4a3a2a1 00000000")), out));
  EXPECT_FALSE(ReadList::decode(as_byte_span(from_hex("0000 01 00 0000000000000000" + span)), out));
  EXPECT_TRUE(ReadList::decode(as_byte_span(from_hex("0000 01 00" + connection + span)), out));
}

}  // namespace
}  // namespace skua::rpc
