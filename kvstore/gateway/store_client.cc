#include "kvstore/gateway/store_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kvstore/codec/row.h"
#include "kvstore/gateway/store_outcome.h"
#include "rpc/base/bytes.h"
#include "rpc/base/check.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;

/// A count looks at a whole table, so it has longer than the operations of --timeout.
constexpr std::chrono::minutes kCountTimeout{5};

WriteOptions write_options(const StoreRequest& request) {
  return {.if_version = request.if_version,
          .if_absent = request.if_absent,
          .if_present = request.if_present,
          .ttl = std::chrono::milliseconds(request.ttl_ms),
          .keep_ttl = request.keep_ttl,
          .mark = request.mark};
}

std::vector<FieldUpdate> fields_of(std::string_view row) {
  std::vector<FieldUpdate> fields;
  for (RowReader reader(as_byte_span(row), RowReader::Form::kEdit); const auto field = reader.next();) {
    fields.push_back({field->name, as_string_view(field->value), field->is_removed});
  }
  return fields;
}

Batch batch_of(const std::vector<StoreRequest>& operations) {
  Batch batch;
  for (const StoreRequest& operation : operations) {
    const std::chrono::milliseconds ttl(operation.ttl_ms);
    BatchOpOptions options{
        .if_version = operation.if_version, .if_absent = operation.if_absent, .if_present = operation.if_present};
    switch (operation.kind) {
      case Kind::kPut:
        options.ttl = ttl;
        options.keep_ttl = operation.keep_ttl;
        options.mark = operation.mark;
        batch.put(operation.key, operation.value, options);
        break;
      case Kind::kRemove: batch.remove(operation.key, options); break;
      case Kind::kExpire: batch.expire(operation.key, ttl, options); break;
      case Kind::kCheck: batch.check(operation.key, operation.if_version.value_or(0)); break;
      default: SKUA_CHECK(false, "a batch has PUT, REMOVE, EXPIRE and CHECK");
    }
  }
  return batch;
}

}  // namespace

StoreClient::StoreClient(AsyncClient& client, const std::map<uint32_t, std::string>& tables, ResultFn on_result)
    : client_(client),
      tables_(tables),
      on_result_(std::move(on_result)),
      gets_(
          client, [this](uint32_t place, StoreResult&& result) { finish(place, std::move(result)); },
          [this](const std::string& table, std::string_view key, uint32_t place) {
            submit_or_refuse({.kind = Kind::kGet, .key = key, .with_mark = true}, table, place);
          }),
      puts_(client, [this](std::span<const PutGroups::Member> members, const StoreResult& result) {
        finish_puts(members, result);
      }) {}

uint32_t StoreClient::add_pending(uint64_t connection, const IssuedRequest& issued) {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  const uint32_t place = free_places_.back();
  free_places_.pop_back();
  const size_t put_count = issued.request.kind == Kind::kPuts ? burst_size(*issued.request.puts) : 1;
  pending_[place] = {.connection = connection,
                     .ticket = issued.ticket,
                     .kind = issued.request.kind,
                     .is_count = issued.request.count_only,
                     .unanswered_puts = put_count,
                     .failed_puts = {}};
  return place;
}

void StoreClient::run(uint64_t connection, const IssuedRequest& issued) {
  if (issued.request.count_only && counts_ >= kCountsMax) {
    return on_result_(
        connection, issued.ticket,
        {.status = StoreResult::Status::kNotApplied, .text = "the gateway counts as many tables as it may at once"});
  }
  counts_ += issued.request.count_only ? 1 : 0;
  const uint32_t place = add_pending(connection, issued);
  const std::string& table = tables_.at(issued.request.database);
  if (issued.request.kind == Kind::kPuts) return run_puts(*issued.request.puts, table, place);
  if (gets_.add(table, issued.request, place) || puts_.add(table, issued.request, {place, 0})) return;
  submit_or_refuse(issued.request, table, place);
}

void StoreClient::run_puts(const CommandArguments& puts, const std::string& table, uint32_t place) {
  StoreRequest request{.kind = Kind::kPut};
  // The last PUT may be answered at once, and then its command and the words are gone.
  const size_t word_count = puts.size();
  for (size_t i = 1; i < word_count; i += 2) {
    request.key = puts[i];
    request.value = puts[i + 1];
    const PutGroups::Member member{.place = place, .index = static_cast<uint32_t>(i / 2)};
    if (puts_.add(table, request, member)) continue;
    const absl::Status accepted = client_.put(table, request.key, request.value, {}, [this, member](WriteResult&& put) {
      finish_puts({&member, 1}, store_result(Kind::kPut, put));
    });
    if (!accepted.ok()) finish_puts({&member, 1}, store_refusal(Kind::kPut, accepted));
  }
}

void StoreClient::submit_or_refuse(const StoreRequest& request, const std::string& table, uint32_t place) {
  const absl::Status accepted = submit(request, table, place);
  if (!accepted.ok()) finish(place, store_refusal(request.kind, accepted));
}

absl::Status StoreClient::submit(const StoreRequest& request, const std::string& table, uint32_t place) {
  if (request.kind == Kind::kGet) {
    const ReadOptions options{.with_ttl = request.with_ttl,
                              .with_mark = request.with_mark,
                              .size_only = request.drops_value,
                              .fields = request.fields};
    return client_.get(table, request.key, options, [this, place](GetResult&& got) {
      StoreResult result = store_result(Kind::kGet, got);
      result.mark = got.mark;
      result.value = std::move(got.value);
      result.value_bytes = got.value_bytes;
      if (got.ttl.has_value()) result.ttl_ms = static_cast<uint64_t>(std::max<int64_t>(got.ttl->count(), 0));
      finish(place, std::move(result));
    });
  }
  if (request.kind == Kind::kScan) {
    ScanRange range{.start = request.key, .end = request.end, .keys_only = request.keys_only};
    ReadOptions options{.with_mark = request.with_mark};
    if (request.count_only) {
      range.count_only = true;
      options.timeout = kCountTimeout;
    } else {
      range.limit = request.rows_max;
    }
    return client_.scan(table, range, options, [this, place](ScanResult&& page) {
      StoreResult result = store_result(Kind::kScan, page);
      result.scan = std::make_unique<ScanResult>(std::move(page));
      finish(place, std::move(result));
    });
  }
  if (request.kind == Kind::kBatch) return submit_batch(request, table, place);
  return submit_write(request, table, place);
}

absl::Status StoreClient::submit_batch(const StoreRequest& request, const std::string& table, uint32_t place) {
  const Batch batch = batch_of(*request.batch);
  return client_.batch(table, batch, {}, [this, place](BatchResult&& done) {
    StoreResult result = store_result(Kind::kBatch, done);
    const auto failed = std::ranges::find(done.ops, done.status.code(),
                                          [](const BatchOpResult& operation) { return operation.status.code(); });
    if (failed != done.ops.end()) result.failed_operation = static_cast<size_t>(failed - done.ops.begin());
    finish(place, std::move(result));
  });
}

absl::Status StoreClient::submit_write(const StoreRequest& request, const std::string& table, uint32_t place) {
  WriteOptions options = write_options(request);
  auto done = [this, place](WriteResult&& written) {
    StoreResult result = store_result(pending_[place].kind, written);
    result.number = written.value;
    result.fields = written.fields;
    finish(place, std::move(result));
  };
  switch (request.kind) {
    case Kind::kPut: return client_.put(table, request.key, request.value, options, std::move(done));
    case Kind::kAppend: return client_.append(table, request.key, request.value, options, std::move(done));
    case Kind::kAdd: return client_.add(table, request.key, request.delta, options, std::move(done));
    case Kind::kRemove: return client_.remove(table, request.key, options, std::move(done));
    case Kind::kExpire: return client_.expire(table, request.key, options.ttl, options, std::move(done));
    case Kind::kEdit:
      return client_.patch(table, request.key, fields_of(request.value),
                           {.create_if_missing = request.creates,
                            .row = request.mark.row,
                            .count_fields = true,
                            .if_version = request.if_version},
                           std::move(done));
    case Kind::kGet:
    case Kind::kPuts:
    case Kind::kScan:
    case Kind::kBatch:
    case Kind::kCheck:
    case Kind::kPassword: break;
  }
  return absl::InternalError("not a write");
}

/// `members`: of one request.
void StoreClient::finish_puts(std::span<const PutGroups::Member> members, const StoreResult& result) {
  const uint32_t place = members.front().place;
  Pending& pending = pending_[place];
  if (pending.kind == Kind::kPut) {
    return finish(place, {.status = result.status, .version = result.version, .text = result.text});
  }
  if (!result.ok()) {
    for (const PutGroups::Member& member : members) {
      pending.failed_puts.push_back({member.index, result.status, result.text});
    }
  }
  pending.unanswered_puts -= members.size();
  if (pending.unanswered_puts > 0) return;
  StoreResult puts;
  puts.failed_puts = std::move(pending.failed_puts);
  std::ranges::sort(puts.failed_puts, {}, &StoreResult::FailedPut::index);
  finish(place, std::move(puts));
}

void StoreClient::finish(uint32_t place, StoreResult&& result) {
  const Pending pending = std::exchange(pending_[place], {});
  free_places_.push_back(place);
  counts_ -= pending.is_count ? 1 : 0;
  on_result_(pending.connection, pending.ticket, std::move(result));
}

}  // namespace skua::kv::gateway
