#include "kvstore/gateway/resp_writer.h"

#include <array>
#include <charconv>
#include <utility>

namespace skua::kv::gateway {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

}  // namespace

void RespWriter::header(char kind, int64_t number) {
  std::array<char, 24> line;
  line[0] = kind;
  char* end = std::to_chars(line.data() + 1, line.data() + line.size() - 2, number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out_.append(std::string_view(line.data(), static_cast<size_t>(end - line.data())));
}

void RespWriter::simple(std::string_view text) {
  out_.append('+');
  out_.append(text);
  out_.append(kLineEnd);
}

void RespWriter::error(std::string_view text) {
  out_.append('-');
  for (const char byte : text) out_.append(byte == '\r' || byte == '\n' ? ' ' : byte);
  out_.append(kLineEnd);
}

void RespWriter::bulk(std::string_view bytes) {
  header('$', static_cast<int64_t>(bytes.size()));
  out_.append(bytes);
  out_.append(kLineEnd);
}

void RespWriter::bulk(ValueView&& value) {
  header('$', static_cast<int64_t>(value.size()));
  out_.append(std::move(value));
  out_.append(kLineEnd);
}

void RespWriter::verbatim(std::string_view text) {
  constexpr std::string_view kFormat = "txt:";
  if (version_ != RespVersion::kResp3) return bulk(text);
  header('=', static_cast<int64_t>(kFormat.size() + text.size()));
  out_.append(kFormat);
  out_.append(text);
  out_.append(kLineEnd);
}

void RespWriter::bulks(std::initializer_list<std::string_view> all) {
  for (const std::string_view bytes : all) bulk(bytes);
}

void RespWriter::bulk_or_null(const std::optional<std::string_view>& bytes) {
  if (!bytes.has_value()) return null();
  bulk(*bytes);
}

void RespWriter::null_of(std::string_view resp2) {
  out_.append(version_ == RespVersion::kResp3 ? std::string_view("_\r\n") : resp2);
}

void RespWriter::map(size_t count) {
  const bool has_maps = version_ == RespVersion::kResp3;
  header(has_maps ? '%' : '*', static_cast<int64_t>(has_maps ? count : 2 * count));
}

void RespWriter::set(size_t count) {
  header(version_ == RespVersion::kResp3 ? '~' : '*', static_cast<int64_t>(count));
}

}  // namespace skua::kv::gateway
