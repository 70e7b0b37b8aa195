#include "kvstore/ctl/table_line.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/text.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

/// What the parser says when a line is wrong; names are cut, because they may be as long as the line.
constexpr size_t kShownBytesMax = 64;

/// The members that a line may have.
enum class Member : uint8_t { kKey, kKeyBase64, kValue, kValueBase64, kTag, kRow, kTtl };
constexpr std::array<const char*, 7> kMemberNames = {"key", "key_base64", "value", "value_base64",
                                                     "tag", "row",        "ttl_ms"};

const char* name_of(Member member) {
  return kMemberNames[static_cast<size_t>(member)];
}

/// Takes what the parser finds. Nothing is kept but members of a line, and nothing nests, so a hostile line costs no
/// more memory than it has bytes.
class LineMembers : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return wrong_type(); }
  bool boolean(bool found) override {
    if (current_ != Member::kRow) return wrong_type();
    row_.mark.row = found;
    return true;
  }
  bool number_integer(number_integer_t) override { return wrong_type(); }
  bool number_unsigned(number_unsigned_t found) override {
    if (current_ == Member::kTag) return tag(found);
    return current_ == Member::kTtl ? ttl(found) : wrong_type();
  }
  bool number_float(number_float_t, const string_t&) override { return wrong_type(); }
  bool string(string_t& found) override {
    switch (current_.value_or(Member::kTag)) {
      case Member::kKey: row_.key = std::move(found); return true;
      case Member::kValue: row_.value = std::move(found); return true;
      case Member::kKeyBase64: return base64(found, row_.key);
      case Member::kValueBase64: return base64(found, row_.value);
      default: return wrong_type();
    }
  }
  bool binary(binary_t&) override { return wrong_type(); }
  bool start_object(std::size_t) override {
    if (is_in_object_) return wrong_type();
    is_in_object_ = true;
    return true;
  }
  bool key(string_t& name) override {
    for (size_t i = 0; i < kMemberNames.size(); ++i) {
      if (name != kMemberNames[i]) continue;
      current_ = static_cast<Member>(i);
      return std::exchange(has_[i], true) ? fail(absl::StrCat("has \"", name, "\" twice")) : true;
    }
    return fail(absl::StrCat("has \"", printable(name, kShownBytesMax),
                             "\", which is none of key, key_base64, value, value_base64, tag, row, ttl_ms"));
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return wrong_type(); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(absl::StrCat("is no JSON from byte ", position, " on"));
  }

  /// The row, if the whole line was parsed.
  absl::StatusOr<TableLine> finish() {
    if (!status_.ok()) return status_;
    for (const auto& [text, base64] :
         {std::pair(Member::kKey, Member::kKeyBase64), {Member::kValue, Member::kValueBase64}}) {
      const int count = int{has(text)} + int{has(base64)};
      if (count != 1)
        fail(absl::StrCat(count == 0 ? "has no \"" : "has both \"", name_of(text),
                          count == 0 ? "\" and no \"" : "\" and \"", name_of(base64), "\""));
    }
    if (status_.ok()) status_ = check_key(row_.key);
    if (status_.ok()) status_ = check_value(as_byte_span(row_.value));
    if (!status_.ok()) return status_;
    return std::move(row_);
  }

 private:
  bool fail(const std::string& what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(what);
    return false;
  }
  bool wrong_type() {
    if (!current_.has_value()) return fail("is no JSON object such as {\"key\":\"a\",\"value\":\"b\"}");
    return fail(absl::StrCat("has \"", name_of(*current_), "\" of another type than ",
                             *current_ == Member::kRow                                ? "true or false"
                             : *current_ == Member::kTag || *current_ == Member::kTtl ? "a number that is not negative"
                                                                                      : "text"));
  }
  bool base64(const std::string& text, std::string& bytes) {
    return absl::Base64Unescape(text, &bytes) ? true
                                              : fail(absl::StrCat("has no base64 in \"", name_of(*current_), "\""));
  }
  bool tag(uint64_t found) {
    if (found > UINT32_MAX) return fail(absl::StrCat("has a tag above ", with_commas(UINT32_MAX)));
    row_.mark.tag = static_cast<uint32_t>(found);
    return true;
  }
  bool ttl(uint64_t found) {
    if (found == 0 || found > kTtlMsMax) return fail("has a ttl_ms that is not 1 to that of 100 years");
    row_.ttl = std::chrono::milliseconds(found);
    return true;
  }
  [[nodiscard]] bool has(Member member) const { return has_[static_cast<size_t>(member)]; }

  bool is_in_object_ = false;
  std::optional<Member> current_;
  std::array<bool, kMemberNames.size()> has_{};
  TableLine row_;
  absl::Status status_;
};

void set_bytes(nlohmann::json& object, const char* name, const char* base64_name, const std::string& bytes) {
  if (is_utf8(bytes)) {
    object[name] = bytes;
  } else {
    object[base64_name] = absl::Base64Escape(bytes);
  }
}

}  // namespace

std::string line_of(const TableLine& row) {
  nlohmann::json object = nlohmann::json::object();
  set_bytes(object, "key", "key_base64", row.key);
  set_bytes(object, "value", "value_base64", row.value);
  if (row.mark.tag != 0) object["tag"] = row.mark.tag;
  if (row.mark.row) object["row"] = true;
  if (row.ttl.has_value()) object["ttl_ms"] = row.ttl->count();
  return object.dump();
}

absl::StatusOr<TableLine> parse_table_line(std::string_view line) {
  // The parser takes a zero byte for the end, and would leave out what is behind it.
  if (const size_t at = line.find('\0'); at != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("is no JSON from byte ", at + 1, " on: a zero byte"));
  }
  LineMembers members;
  nlohmann::json::sax_parse(line, &members);
  return members.finish();
}

}  // namespace skua::kv::ctl
