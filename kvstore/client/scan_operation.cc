#include "kvstore/client/scan_operation.h"

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

// --- One page

absl::StatusOr<CallOperation::Request> ScanPage::encode(const Route& route, HeadBuffer&) {
  const ScanRequest request = parent->request_of(*this, route);
  const absl::StatusOr<ByteSpan> head = encode_scan(request, runner->scratch(scan_bytes(request)));
  if (!head.ok()) return head.status();
  return Request{*head};
}

void ScanPage::on_reply(rpc::Lease&& lease) {
  const absl::StatusOr<ScanReply> reply = decode_scan_reply(lease.bytes());
  if (!reply.ok()) return runner->on_malformed(*this, reply.status());
  if (!runner->is_answer(*this, reply->head)) return;
  if (absl::Status status = parent->add_page(*this, *reply, std::move(lease)); !status.ok()) {
    runner->on_malformed(*this, status);
  }
}

void ScanPage::finish(Outcome&& outcome) {
  parent->page_failed(*this, std::move(outcome));
}

// --- All of it

absl::Status ScanOperation::accept(const ScanCall& call, ScanCallback&& callback) {
  method = Method::kScan;
  if (absl::Status status = check_read_of_many(method, call.options); !status.ok()) return status;
  if (absl::Status status = check_range(call.range); !status.ok()) return status;
  start_.assign(call.range.start);
  end_.assign(call.range.end);
  limit_ = call.range.limit;
  wants_marks_ = call.options.with_mark;
  keys_only_ = call.range.keys_only;
  count_only_ = call.range.count_only;
  done_ = std::move(callback);
  return absl::OkStatus();
}

void ScanOperation::divide(const KeyPlacement& placement) {
  const uint32_t shard_count = placement.shard_count;
  if (count_only_) {
    tokens_.assign(shard_count, std::string());
    uncounted_.resize(shard_count);
    std::iota(uncounted_.begin(), uncounted_.end(), 0);
    return;
  }
  merge_.begin(shard_count, limit_, kScanResultBytesMax);
}

bool ScanOperation::start_part() {
  if (!failure.ok()) return false;
  if (count_only_) {
    if (uncounted_.empty()) return false;
    const uint32_t shard_to_count = uncounted_.back();
    uncounted_.pop_back();
    start_page(shard_to_count);
    return true;
  }
  while (const std::optional<ScanRow> row = merge_.next()) {
    result_.rows.push_back({row->key, as_string_view(row->value), row->version, row->mark});
  }
  const std::optional<uint32_t> of_shard = merge_.next_wanted();
  if (!of_shard.has_value()) return false;
  start_page(*of_shard);
  return true;
}

void ScanOperation::start_page(uint32_t of_shard) {
  ScanPage& page = runner->pools().scan_pages.take();
  page.parent = this;
  page.features = (wants_marks_ ? kFeatureMarks : 0) | (keys_only_ || count_only_ ? kFeatureScanKeys : 0);
  run_part(page, Method::kScan, of_shard);
}

ScanRequest ScanOperation::request_of(const ScanPage& page, const Route& route) const {
  ScanRequest request;
  request.route = route;
  request.start_key = start_;
  request.end_key = end_;
  request.rows_max = count_only_ ? uint32_t{kScanRowsMax} : merge_.page_rows();
  request.bytes_max = kScanPageBytes;
  request.resume_token = count_only_ ? tokens_[page.shard] : merge_.resume_token(page.shard);
  request.wants_marks = wants_marks_;
  request.keys_only = keys_only_;
  request.count_only = count_only_;
  return request;
}

/// A count of a large table has very many pages, so one token is kept for each shard: the greatest covers them all.
void ScanOperation::note_count_token(uint32_t shard, const Token& token) {
  for (Token& kept : result_.tokens) {
    if (kept.shard != shard) continue;
    const bool is_later = std::pair(token.epoch, token.index) > std::pair(kept.epoch, kept.index);
    if (is_later) kept = token;
    return;
  }
  result_.tokens.push_back(token);
}

absl::Status ScanOperation::add_count(ScanPage& page, const ScanReply& reply) {
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
  part_ended(page);
  return absl::OkStatus();
}

absl::Status ScanOperation::add_page(ScanPage& page, const ScanReply& reply, rpc::Lease&& lease) {
  if (count_only_) return add_count(page, reply);
  if (reply.is_count) return absl::InternalError("a scan page has a count in the place of its rows");
  absl::Status status = merge_.add_page(page.shard, reply.rows, reply.has_more, reply.resume_token);
  if (!status.ok()) return status;
  result_.tokens.push_back(page.token_of(reply.head));
  const std::string_view all = as_string_view(lease.bytes());
  result_.memory.emplace_back(all, std::move(lease));
  part_ended(page);
  return absl::OkStatus();
}

void ScanOperation::page_failed(ScanPage& page, Outcome&& outcome) {
  note_failure(std::move(outcome));
  part_ended(page);
}

void ScanOperation::finish(Outcome&& outcome) {
  static_cast<Outcome&>(result_) = std::move(outcome);
  result_.has_more = false;
  result_.next_start.clear();
  if (!result_.ok()) {
    result_.rows.clear();
    result_.tokens.clear();
    result_.memory.clear();
    result_.count = 0;
  } else if (!count_only_ && merge_.has_more()) {
    result_.next_start = key_after(result_.rows.back().key);
    result_.has_more = !result_.next_start.empty();
  }
  ScanCallback callback = std::move(done_);
  hold();  // the result is in here, and end() drops a hold
  runner->end(*this, result_);
  callback(std::move(result_));
  // NOLINTNEXTLINE(bugprone-use-after-move): clears what the callback left in it
  result_.rows.clear();
  result_.count = 0;
  result_.tokens.clear();
  result_.memory.clear();
  static_cast<Outcome&>(result_) = Outcome();
  drop();
}

}  // namespace skua::kv
