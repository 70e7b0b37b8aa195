#include "kvstore/client/key_text.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace skua::kv {
namespace {

TEST(KeyTextTest, KeepsKeysOfAllSizes) {
  KeyText key;
  EXPECT_EQ(key.view(), "");
  for (const size_t size : std::initializer_list<size_t>{1, 24, 55, 56, 57, 1024, 56, 3, 0, 2000}) {
    const std::string text(size, static_cast<char>('a' + static_cast<int>(size % 26)));
    key.assign(text);
    EXPECT_EQ(key.view(), text);
  }
  key.assign("");
  EXPECT_EQ(std::string_view(key), "");
}

TEST(KeyTextTest, KeepsZeroBytes) {
  KeyText key;
  const std::string_view text("\0a\0", 3);
  key.assign(text);
  EXPECT_EQ(key.view(), text);
}

}  // namespace
}  // namespace skua::kv
