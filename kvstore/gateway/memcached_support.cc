#include "kvstore/gateway/memcached_support.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/memcached_errors.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

constexpr int64_t kRelativeSecondsMax = int64_t{30} * 24 * 3600;
/// Beyond all times that the store takes.
constexpr int64_t kSecondsMax = int64_t{1} << 40;

std::string memcached_failure_text(const StoreResult& result) {
  const absl::string_view text = absl_view(result.text);
  switch (result.status) {
    case StoreResult::Status::kNotApplied: return absl::StrCat("SERVER_ERROR try again: ", text);
    case StoreResult::Status::kUnknown: return absl::StrCat("SERVER_ERROR outcome unknown: ", text);
    case StoreResult::Status::kNoRight: return absl::StrCat("SERVER_ERROR no right: ", text);
    default: return absl::StrCat("SERVER_ERROR ", text);
  }
}

}  // namespace

void MemcachedReply::line(std::string_view text) const {
  if (is_silent_) return;
  for (const char byte : text) run_.reply_bytes().append(byte == '\r' || byte == '\n' ? ' ' : byte);
  run_.reply_bytes().append("\r\n");
}

bool MemcachedReply::failure(const StoreResult& result) const {
  if (!result.is_failure()) return false;
  if (!is_silent_) run_.reply_bytes().clear();
  line(memcached_failure_text(result));
  return true;
}

void hide_hash(StoreResult& got) {
  if (got.ok() && got.mark.row) got = {.status = StoreResult::Status::kNotFound};
}

bool MemcachedReply::failure_or_hash(const StoreResult& result) const {
  if (failure(result)) return true;
  if (!result.ok() || !result.mark.row) return false;
  line(memcached_errors::kHash);
  return true;
}

bool is_noreply(std::string_view word) {
  return word == "noreply";
}

MemcachedExpiry memcached_expiry(int64_t exptime, int64_t now_ms) {
  if (exptime == 0) return {};
  if (exptime < 0) return {.is_past = true};
  const int64_t at_ms = std::min(exptime, kSecondsMax) * 1000;
  const int64_t ttl_ms = exptime <= kRelativeSecondsMax ? at_ms : at_ms - now_ms;
  if (ttl_ms <= 0) return {.is_past = true};
  return {.ttl_ms = std::min(static_cast<uint64_t>(ttl_ms), kTtlMsMax)};
}

std::optional<uint64_t> memcached_ttl_ms(const MemcachedExpiry& expiry) {
  return expiry.ttl_ms > 0 || expiry.is_past ? std::optional(expiry.ttl_ms) : std::nullopt;
}

StoreRequest memcached_put(std::string_view key, std::string_view value, uint32_t tag, const MemcachedExpiry& expiry) {
  if (expiry.is_past) return {.kind = StoreRequest::Kind::kRemove, .key = key};
  return {.kind = StoreRequest::Kind::kPut, .key = key, .value = value, .mark = {.tag = tag}, .ttl_ms = expiry.ttl_ms};
}

StoreRequest memcached_touch(std::string_view key, const MemcachedExpiry& expiry) {
  if (expiry.is_past) return {.kind = StoreRequest::Kind::kRemove, .key = key};
  return {.kind = StoreRequest::Kind::kExpire, .key = key, .ttl_ms = expiry.ttl_ms};
}

int64_t ttl_seconds(std::optional<uint64_t> ttl_ms) {
  return ttl_ms.has_value() ? static_cast<int64_t>((*ttl_ms + 999) / 1000) : -1;
}

std::string meta_line(const MetaFacts& facts, const MetaFlags& flags, std::string_view key) {
  std::string out(facts.code);
  for (const std::string_view flag : flags.words) {
    switch (flag[0]) {
      case 'O': absl::StrAppend(&out, " ", absl_view(flag)); break;
      case 'k':
        absl::StrAppend(&out, " k", flags.is_key_encoded ? absl::Base64Escape(absl_view(key)) : std::string(key),
                        flags.is_key_encoded ? " b" : "");
        break;
      case 'c':
        if (facts.version.has_value()) absl::StrAppend(&out, " c", *facts.version);
        break;
      case 't':
        if (facts.got != nullptr) absl::StrAppend(&out, " t", ttl_seconds(facts.ttl_ms));
        break;
      case 's':
        if (facts.got != nullptr) absl::StrAppend(&out, " s", facts.got->value_bytes);
        break;
      case 'f':
        if (facts.got != nullptr) absl::StrAppend(&out, " f", facts.got->mark.tag);
        break;
      default: break;
    }
  }
  return out;
}

void reply_meta(CommandRun& run, const MetaFlags& flags, const MetaFacts& facts, bool is_silent) {
  MemcachedReply(run, is_silent).line(meta_line(facts, flags, run.arg(1)));
}

}  // namespace skua::kv::gateway
