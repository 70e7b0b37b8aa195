// SCAN: asks each shard for one page at a time, and merges the pages in key order (scan_merge.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_core.h"
#include "kvstore/client/client_limits.h"
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

absl::Status ClientCore::scan(std::string_view table, const ScanRange& range, const ReadOptions& options,
                              ScanCallback&& done) {
  if (absl::Status status = admit(table, options.timeout); !status.ok()) return status;
  if (absl::Status status = check_read_of_many(Method::kScan, options); !status.ok()) return status;
  if (absl::Status status = check_range(range); !status.ok()) return status;
  Operation& operation = begin(Method::kScan, table, {}, options.timeout);
  operation.kind = Kind::kScan;
  if (operation.scan == nullptr) operation.scan = std::make_unique<ScanState>();
  ScanState& state = *operation.scan;
  state.start.assign(range.start);
  state.end.assign(range.end);
  state.limit = range.limit;
  operation.on_scan = std::move(done);
  return submit(operation);
}

void ClientCore::start_scan(Operation& parent, const TableRoutes& table) {
  ScanState& state = *parent.scan;
  state.merge.begin(static_cast<uint32_t>(table.shards.size()), state.limit, kScanResultBytesMax);
  parent.state = State::kInFlight;
  run_parent(parent);
}

bool ClientCore::start_scan_page(Operation& parent) {
  if (!parent.failure.ok()) return false;
  ScanState& state = *parent.scan;
  while (const std::optional<ScanRow> row = state.merge.next()) {
    state.result.rows.push_back({row->key, as_string_view(row->value), row->version});
  }
  const std::optional<uint32_t> shard = state.merge.next_wanted();
  if (!shard.has_value()) return false;
  dispatch(begin_part(parent, Kind::kScanPage, Method::kScan, *shard));
  return true;
}

absl::StatusOr<ByteSpan> ClientCore::encode_scan_page(const Operation& part, const Route& route) {
  const ScanState& state = *part.parent->scan;
  ScanRequest request;
  request.route = route;
  request.start_key = state.start;
  request.end_key = state.end;
  request.rows_max = state.merge.page_rows();
  request.bytes_max = kScanPageBytes;
  request.resume_token = state.merge.resume_token(part.shard);
  scratch_.resize(scan_bytes(request));
  return encode_scan(request, scratch_);
}

void ClientCore::on_scan_reply(Operation& part, rpc::Lease&& lease) {
  const absl::StatusOr<ScanReply> reply = decode_scan_reply(lease.bytes());
  if (!reply.ok()) return on_malformed(part, reply.status());
  if (!judge(part, reply->head)) return;
  ScanState& state = *part.parent->scan;
  if (absl::Status status = state.merge.add_page(part.shard, reply->rows, reply->has_more, reply->resume_token);
      !status.ok()) {
    return on_malformed(part, status);
  }
  state.result.tokens.push_back({part.table_id, part.shard, reply->head.epoch, reply->head.index});
  const std::string_view all = as_string_view(lease.bytes());
  state.result.memory.emplace_back(all, std::move(lease));
  part_ended(part);
}

void ClientCore::finish_scan(Operation& parent, Outcome&& outcome) {
  ScanResult& result = parent.scan->result;
  static_cast<Outcome&>(result) = std::move(outcome);
  result.has_more = false;
  result.next_start.clear();
  if (!result.ok()) {
    result.rows.clear();
    result.tokens.clear();
    result.memory.clear();
  } else if (parent.scan->merge.has_more()) {
    result.next_start = key_after(result.rows.back().key);
    result.has_more = !result.next_start.empty();
  }
  ScanCallback done = std::move(parent.on_scan);
  OperationPool::hold(parent);  // the result is in parent, and end() drops a hold
  end(parent, result);
  done(std::move(result));
  // NOLINTNEXTLINE(bugprone-use-after-move): clears what the callback left in it
  result.rows.clear();
  result.tokens.clear();
  result.memory.clear();
  static_cast<Outcome&>(result) = Outcome();
  OperationPool::drop(parent);
}

}  // namespace skua::kv
