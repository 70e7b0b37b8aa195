#include "kvstore/codec/chosen_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/row.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/codec_testing.h"

namespace skua::kv {
namespace {

using testing::Fields;
using testing::make_row;
using testing::random_text;
using testing::read_row;

/// Names as a request has them.
class Names {
 public:
  explicit Names(const std::vector<std::string_view>& names) : count_(names.size()) {
    EXPECT_TRUE(encode_field_names(names, encoded_).ok());
  }
  [[nodiscard]] StringList list() const { return {as_byte_span(encoded_), count_}; }

 private:
  std::string encoded_;
  size_t count_;
};

/// The fields of `row` that have one of the names; nullopt: it is not a row.
std::optional<Fields> chosen(const std::string& row, const std::vector<std::string_view>& texts) {
  const Names names(texts);
  const std::optional<ChosenFields> fields = ChosenFields::of(as_byte_span(row), names.list());
  if (!fields.has_value()) return std::nullopt;
  std::string bytes;
  fields->append_to(bytes);
  EXPECT_EQ(bytes.size(), fields->byte_count());
  if (const auto part = fields->one_part(); part.has_value()) {
    EXPECT_EQ(as_string_view(*part), bytes);
  }
  return read_row(bytes);
}

TEST(ChosenFields, AreInTheOrderOfTheRow) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  EXPECT_EQ(chosen(row, {"c", "a"}), (Fields{{"a", "1"}, {"c", "3"}}));
  EXPECT_EQ(chosen(row, {"b", "none", "b"}), (Fields{{"b", "2"}})) << "a name that comes twice is one field";
  EXPECT_EQ(chosen(row, {"none"}), Fields());
  EXPECT_EQ(chosen("", {"a"}), Fields()) << "a row without fields";
}

TEST(ChosenFields, ThatLieSideBySide_AreOnePart) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}});
  const auto part = [&](const std::vector<std::string_view>& texts) {
    const Names names(texts);
    return ChosenFields::of(as_byte_span(row), names.list())->one_part();
  };
  const size_t field = row.size() / 4;
  EXPECT_EQ(part({"c", "b"})->data(), as_byte_span(row).subspan(field).data()) << "nothing is copied";
  EXPECT_EQ(part({"c", "b"})->size(), 2 * field);
  EXPECT_EQ(part({"a", "b", "c", "d"})->size(), row.size());
  EXPECT_EQ(part({"d"})->size(), field);
  EXPECT_TRUE(part({"none"})->empty());
  EXPECT_FALSE(part({"a", "c"}).has_value());
}

TEST(ChosenFields, OfWhatIsNoRow) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(chosen(row.substr(0, row.size() - 1), {"a"}), std::nullopt);
  EXPECT_EQ(chosen("text", {"a"}), std::nullopt);
  EXPECT_EQ(chosen(make_row(Fields(kFieldsMax + 1, {"f", ""})), {"f"}), std::nullopt);
}

TEST(ChosenFields, AgreeWithTwin) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    Fields fields;
    for (size_t i = rng.below(40); i > 0; --i) {
      fields.emplace_back(absl::StrCat("f", rng.below(60)), random_text(rng, 5));
    }
    std::vector<std::string> texts;
    for (size_t i = rng.between(1, 40); i > 0; --i) texts.push_back(absl::StrCat("f", rng.below(60)));
    Fields expected;
    for (const auto& field : fields) {
      if (std::find(texts.begin(), texts.end(), field.first) != texts.end()) expected.push_back(field);
    }
    EXPECT_EQ(chosen(make_row(fields), {texts.begin(), texts.end()}), expected);
  }
}

}  // namespace
}  // namespace skua::kv
