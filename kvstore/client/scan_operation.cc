#include "kvstore/client/scan_operation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/codec/text.h"

namespace skua::kv {
namespace {

/// The smallest possible key above `key`. Empty if there is none.
std::string key_after(std::string_view key) {
  std::string next(key);
  if (next.size() < kKeyBytesMax) {
    next.push_back('\0');
    return next;
  }
  while (!next.empty() && next.back() == '\xff') next.pop_back();
  if (!next.empty()) next.back() = static_cast<char>(static_cast<unsigned char>(next.back()) + 1);
  return next;
}

absl::Status check_range(const ScanRange& range) {
  if (range.count_only && range.keys_only) {
    return absl::InvalidArgumentError("SCAN counts rows, or returns their keys, not both");
  }
  if (range.limit == 0 || range.limit > kScanLimitMax) {
    return absl::InvalidArgumentError(absl::StrCat("SCAN with a limit of ", with_commas(range.limit),
                                                   "; it takes 1 to ", with_commas(kScanLimitMax),
                                                   "; go on from next_start"));
  }
  if (range.start.size() > kKeyBytesMax) {
    return beyond_limit("the start key", "byte", range.start.size(), kKeyBytesMax);
  }
  if (range.end.size() > kKeyBytesMax) return beyond_limit("the end key", "byte", range.end.size(), kKeyBytesMax);
  return absl::OkStatus();
}

}  // namespace

absl::Status ScanOperation::accept(const ScanCall& call, ScanCallback&& callback) {
  method = Method::kScan;
  if (absl::Status status = check_read_of_many(method, call.options); !status.ok()) return status;
  if (absl::Status status = check_range(call.range); !status.ok()) return status;
  start_.assign(call.range.start);
  end_.assign(call.range.end);
  limit_ = call.range.limit;
  request_ = {.start_key = start_,
              .end_key = end_,
              .bytes_max = kScanPageBytes,
              .wants_marks = call.options.with_mark,
              .keys_only = call.range.keys_only,
              .count_only = call.range.count_only};
  done_ = std::move(callback);
  return absl::OkStatus();
}

void ScanOperation::divide(const KeyPlacement& placement) {
  const uint32_t shard_count = placement.shard_count;
  if (request_.count_only) {
    tokens_.assign(shard_count, std::string());
    uncounted_.resize(shard_count);
    std::iota(uncounted_.begin(), uncounted_.end(), 0);
    return;
  }
  merge_.begin(shard_count, limit_, kScanResultBytesMax);
}

bool ScanOperation::start_part() {
  if (!failure.ok()) return false;
  std::optional<uint32_t> of_shard;
  if (!request_.count_only) {
    while (const std::optional<ScanRow> row = merge_.next()) {
      result_.rows.push_back({row->key, as_string_view(row->value), row->version, row->mark});
    }
    of_shard = merge_.next_wanted();
  } else if (!uncounted_.empty()) {
    of_shard = uncounted_.back();
    uncounted_.pop_back();
  }
  if (!of_shard.has_value()) return false;
  const bool without_values = request_.keys_only || request_.count_only;
  ask(0, *of_shard, (request_.wants_marks ? kFeatureMarks : 0) | (without_values ? kFeatureScanKeys : 0));
  return true;
}

absl::StatusOr<ByteSpan> ScanOperation::encode_part(const OperationPart& page, const Route& route) {
  ScanRequest request = request_;
  request.route = route;
  request.rows_max = request.count_only ? uint32_t{kScanRowsMax} : merge_.page_rows();
  request.resume_token = request.count_only ? tokens_[page.shard] : merge_.resume_token(page.shard);
  return encode_scan(request, runner->scratch(scan_bytes(request)));
}

absl::Status ScanOperation::take_reply(OperationPart& page, rpc::Lease&& lease) {
  const absl::StatusOr<ScanReply> reply = decode_scan_reply(lease.bytes());
  if (!reply.ok()) return reply.status();
  if (!runner->is_answer(page, reply->head)) return absl::OkStatus();
  absl::Status status = request_.count_only ? add_count(page, *reply) : add_rows(page, *reply, std::move(lease));
  if (status.ok()) part_ended(page);
  return status;
}

/// A count of a large table has very many pages, so one token is kept for each shard: the greatest covers them all.
void ScanOperation::note_count_token(uint32_t shard, const Token& token) {
  const auto kept = std::ranges::find(result_.tokens, shard, &Token::shard);
  if (kept == result_.tokens.end()) {
    result_.tokens.push_back(token);
  } else if (std::pair(token.epoch, token.index) > std::pair(kept->epoch, kept->index)) {
    *kept = token;
  }
}

absl::Status ScanOperation::add_count(const OperationPart& page, const ScanReply& reply) {
  if (reply.rows.size() > 0) return absl::InternalError("a scan page has rows that were only to be counted");
  // Otherwise a faulty node could keep the operation going in circles, or make up any count.
  if (reply.has_more && !reply.is_count) return absl::InternalError("a scan page that counted nothing has more");
  if (reply.has_more && reply.resume_token <= tokens_[page.shard]) {
    return absl::InternalError("a scan page's resume token does not lie behind the one before");
  }
  result_.count += reply.counted;
  note_count_token(page.shard, page.token_of(reply.head));
  if (reply.has_more) {
    tokens_[page.shard].assign(reply.resume_token);
    uncounted_.push_back(page.shard);
  }
  return absl::OkStatus();
}

absl::Status ScanOperation::add_rows(const OperationPart& page, const ScanReply& reply, rpc::Lease&& lease) {
  if (reply.is_count) return absl::InternalError("a scan page has a count in the place of its rows");
  absl::Status status = merge_.add_page(page.shard, reply.rows, reply.has_more, reply.resume_token);
  if (!status.ok()) return status;
  result_.tokens.push_back(page.token_of(reply.head));
  const std::string_view all = as_string_view(lease.bytes());
  result_.memory.emplace_back(all, std::move(lease));
  return absl::OkStatus();
}

void ScanOperation::finish(Outcome&& outcome) {
  static_cast<Outcome&>(result_) = std::move(outcome);
  result_.has_more = false;
  result_.next_start.clear();
  if (!result_.ok()) {
    clear_rows();
  } else if (!request_.count_only && merge_.has_more()) {
    result_.next_start = key_after(result_.rows.back().key);
    result_.has_more = !result_.next_start.empty();
  }
  hold();  // the result is in here, and end() drops a hold
  runner->end(*this, done_, std::move(result_));
  drop();
}

void ScanOperation::clear_rows() {
  result_.rows.clear();
  result_.count = 0;
  result_.tokens.clear();
  result_.memory.clear();
}

void ScanOperation::reset() {
  PartedOperation::reset();
  clear_rows();
  static_cast<Outcome&>(result_) = Outcome();
}

}  // namespace skua::kv
