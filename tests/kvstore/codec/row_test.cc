#include "kvstore/codec/row.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kvstore/codec/size_limits.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/codec_testing.h"

namespace skua::kv {
namespace {

using testing::Fields;
using testing::hex;
using testing::make_row;
using testing::random_text;
using testing::read_row;

std::string patched(const std::string& row, const std::string& patch) {
  std::string out = "left over";
  const absl::Status status = patch_row(as_byte_span(row), as_byte_span(patch), out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(RowTest, AppendField_GoldenBytes) {
  const std::string row = make_row({{"field0", "ab"}, {"f", ""}});
  EXPECT_EQ(hex(as_byte_span(row)),
            "06000000"
            "6669656c6430"
            "02000000"
            "6162"
            "01000000"
            "66"
            "00000000");
  EXPECT_EQ(field_bytes({"field0", as_byte_span("ab")}) + field_bytes({"f", {}}), row.size());
}

TEST(RowTest, RowReader_RoundTrip) {
  const Fields fields = {{"a", "1"}, {"b", std::string(1000, 'x')}, {"c", ""}};
  EXPECT_EQ(read_row(make_row(fields)), fields);
  EXPECT_EQ(read_row(""), Fields{});
}

TEST(RowTest, RowReader_TruncatedAtEachByte) {
  const std::string row = make_row({{"field0", "value0"}, {"field1", "value1"}});
  for (size_t size = 1; size < row.size(); ++size) {
    RowReader reader(as_byte_span(row).first(size));
    size_t count = 0;
    while (reader.next()) ++count;
    EXPECT_EQ(reader.ok(), size == row.size() / 2) << size;
    EXPECT_EQ(count, size < row.size() / 2 ? 0U : 1U) << size;
    EXPECT_FALSE(reader.next());
  }
}

TEST(RowTest, CheckRow_NamesTheLimit) {
  EXPECT_TRUE(check_row({}).ok());
  Fields many;
  for (size_t i = 0; i < kFieldsMax; ++i) many.emplace_back("f" + std::to_string(i), "v");
  EXPECT_TRUE(check_row(as_byte_span(make_row(many))).ok());
  many.emplace_back("one more", "v");
  const absl::Status too_many = check_row(as_byte_span(make_row(many)));
  EXPECT_EQ(too_many.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(too_many.message(), "the row has 1,025 fields; at most 1,024 are allowed");
  many.emplace_back("", "nobody reads so far");
  EXPECT_EQ(check_row(as_byte_span(make_row(many))), too_many);

  EXPECT_FALSE(check_row(as_byte_span(make_row({{"", "nameless"}}))).ok());
  EXPECT_TRUE(check_row(as_byte_span(make_row({{std::string(kFieldNameBytesMax, 'n'), ""}}))).ok());
  EXPECT_FALSE(check_row(as_byte_span(make_row({{std::string(kFieldNameBytesMax + 1, 'n'), ""}}))).ok());
  EXPECT_FALSE(check_row(as_byte_span("not a row")).ok());
}

TEST(RowTest, CheckMarkedRow_TakesEachNameOnce) {
  EXPECT_TRUE(check_marked_row({}).ok());
  EXPECT_TRUE(check_marked_row(as_byte_span(make_row({{"b", "1"}, {"a", "1"}, {"ab", ""}}))).ok());
  const std::string twice = make_row({{"b", "1"}, {"a", "1"}, {"b", "2"}});
  EXPECT_TRUE(check_row(as_byte_span(twice)).ok());
  const absl::Status status = check_marked_row(as_byte_span(twice));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the row has the field \"b\" twice");
  EXPECT_FALSE(check_marked_row(as_byte_span("not a row")).ok());
}

TEST(RowTest, FindField_PresentAndAbsent) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(as_string_view(find_field(as_byte_span(row), "b").value()), "2");
  EXPECT_FALSE(find_field(as_byte_span(row), "c"));
  EXPECT_FALSE(find_field({}, "a"));
}

TEST(RowTest, PatchRow_ReplacesInPlaceAndAppends) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  const std::string patch = make_row({{"x", "new"}, {"b", "longer than before"}});
  EXPECT_EQ(read_row(patched(row, patch)), (Fields{{"a", "1"}, {"b", "longer than before"}, {"c", "3"}, {"x", "new"}}));
  EXPECT_EQ(read_row(patched("", patch)), (Fields{{"x", "new"}, {"b", "longer than before"}}));
}

TEST(RowTest, PatchRow_LastOfARepeatedNameWins) {
  const std::string patch = make_row({{"n", "1"}, {"a", "first"}, {"n", "2"}, {"a", "last"}});
  EXPECT_EQ(read_row(patched(make_row({{"a", "old"}}), patch)), (Fields{{"a", "last"}, {"n", "2"}}));
}

TEST(RowTest, PatchRow_Refusals) {
  std::string out;
  const std::string patch = make_row({{"a", "1"}});
  const absl::Status not_a_row = patch_row(as_byte_span("plain text"), as_byte_span(patch), out);
  EXPECT_EQ(not_a_row.code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status bad_patch = patch_row({}, as_byte_span("plain text"), out);
  EXPECT_EQ(bad_patch.code(), absl::StatusCode::kInvalidArgument);

  const std::string large = make_row({{"big", std::string(kValueBytesMax - 20, 'x')}});
  ASSERT_TRUE(check_row(as_byte_span(large)).ok());
  const absl::Status too_large = patch_row(as_byte_span(large), as_byte_span(patch), out);
  EXPECT_EQ(too_large.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(too_large.message().find("at most 16,777,216 are allowed"), absl::string_view::npos);
}

TEST(RowTest, PatchRow_AgreesWithTwin) {
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    auto random_fields = [&](uint64_t count) {
      Fields fields;
      for (uint64_t i = 0; i < count; ++i) {
        fields.emplace_back("f" + std::to_string(rng.below(40)), random_text(rng, rng.below(8)));
      }
      return fields;
    };
    Fields row;
    for (const auto& field : random_fields(rng.below(40))) {
      bool fresh = true;
      for (const auto& known : row) fresh = fresh && known.first != field.first;
      if (fresh) row.push_back(field);
    }
    const Fields patch = random_fields(rng.between(1, 40));

    Fields twin = row;
    for (const auto& [name, value] : patch) {
      bool found = false;
      for (auto& known : twin) {
        if (known.first == name) {
          known.second = value;
          found = true;
        }
      }
      if (!found) twin.emplace_back(name, value);
    }
    ASSERT_EQ(read_row(patched(make_row(row), make_row(patch))), twin) << "round " << round;
  }
}

// --- Edits

std::string removal(const std::string& name) {
  std::string edit;
  append_field(edit, {.name = name, .is_removed = true});
  return edit;
}

struct Edition {
  Edited done;
  PatchCounts counts;
  std::string row;
};

Edition edited(const std::string& row, const std::string& edit) {
  Edition out;
  out.done = edit_row(as_byte_span(row), as_byte_span(edit), out.row, out.counts);
  return out;
}

TEST(Edit, Bytes) {
  EXPECT_EQ(hex(as_byte_span(removal("ab"))), hex(as_byte_span(std::string("\2\0\0\0ab\xff\xff\xff\xff", 10))));
  EXPECT_FALSE(check_row(as_byte_span(removal("ab"))).ok()) << "a row has no removed fields";
  EXPECT_TRUE(check_edit(as_byte_span(removal("ab"))).ok());
  EXPECT_FALSE(check_edit(as_byte_span(removal(""))).ok());
  EXPECT_FALSE(check_edit(as_byte_span(removal("ab") + "x")).ok());
  EXPECT_FALSE(check_edit(as_byte_span(std::string("\1\0\0\0a\xfe\xff\xff\xff", 9))).ok());
}

TEST(Edit, SetsAndRemovesFields_AndCounts) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  const Edition done = edited(row, removal("b") + make_row({{"c", "4"}, {"d", "5"}}) + removal("nosuch"));
  EXPECT_EQ(done.done, Edited::kDone);
  EXPECT_EQ(done.counts, (PatchCounts{.added = 1, .removed = 1, .left = 3}));
  EXPECT_EQ(read_row(done.row), (Fields{{"a", "1"}, {"c", "4"}, {"d", "5"}}));
  const Edition all = edited(row, removal("c") + removal("b") + removal("a"));
  EXPECT_EQ(all.done, Edited::kDone);
  EXPECT_EQ(all.counts, (PatchCounts{.added = 0, .removed = 3, .left = 0}));
  EXPECT_EQ(all.row, "");
  EXPECT_EQ(edited({}, make_row({{"a", ""}})).counts, (PatchCounts{.added = 1, .removed = 0, .left = 1}));
}

TEST(Edit, OfANameThatComesTwice_TheLastCounts) {
  const std::string row = make_row({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(edited(row, removal("a") + make_row({{"a", "3"}})).counts, (PatchCounts{0, 0, 2}));
  EXPECT_EQ(edited(row, make_row({{"a", "3"}}) + removal("a")).counts, (PatchCounts{0, 1, 1}));
  EXPECT_EQ(edited(row, make_row({{"c", "3"}}) + removal("c")).done, Edited::kUnchanged);
}

TEST(Edit, WithoutAnyChange) {
  const std::string row = make_row({{"a", "1"}});
  const Edition none = edited(row, removal("x") + removal("y"));
  EXPECT_EQ(none.done, Edited::kUnchanged);
  EXPECT_EQ(none.counts, (PatchCounts{0, 0, 1}));
  EXPECT_EQ(edited(row, make_row({{"a", "1"}})).done, Edited::kDone) << "a value that is set is a change";
  EXPECT_EQ(none.row, "") << "nothing was copied";
  EXPECT_EQ(edited({}, removal("x")).done, Edited::kUnchanged);
}

TEST(Edit, KeepsTheLimitsOfRows) {
  Fields fields;
  for (size_t i = 0; i < kFieldsMax; ++i) fields.emplace_back("f" + std::to_string(i), "");
  const std::string row = make_row(fields);
  EXPECT_EQ(edited(row, make_row({{"g", ""}})).done, Edited::kTooManyFields);
  EXPECT_EQ(edited(row, make_row({{"g", ""}}) + removal("f7")).counts, (PatchCounts{1, 1, kFieldsMax}));
  const std::string large = make_row({{"a", std::string(kValueBytesMax - 9, 'v')}});
  EXPECT_EQ(edited(large, make_row({{"b", ""}})).done, Edited::kTooLarge);
  EXPECT_EQ(edited(large, make_row({{"b", ""}}) + removal("a")).done, Edited::kDone);
  EXPECT_EQ(edited("no row", removal("a")).done, Edited::kNotARow);
  EXPECT_EQ(edited(row, "no edit").done, Edited::kMalformed);
  EXPECT_EQ(edited(row, row + removal("g")).done, Edited::kMalformed) << "more fields than a row may have";
}

TEST(PatchCounts, AreOneNumber) {
  const PatchCounts counts{.added = 1024, .removed = 3, .left = 1021};
  EXPECT_EQ(counts.word(), 1024 + (int64_t{3} << 16) + (int64_t{1021} << 32));
  EXPECT_EQ(PatchCounts::of_word(counts.word()), counts);
  static_cast<void>(PatchCounts::of_word(-1));
}

}  // namespace
}  // namespace skua::kv
