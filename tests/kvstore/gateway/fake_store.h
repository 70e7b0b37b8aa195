// A store that is a map, and a client that is a string: for tests of the gateway's commands.
#ifndef SKUA_TESTS_KVSTORE_GATEWAY_FAKE_STORE_H_
#define SKUA_TESTS_KVSTORE_GATEWAY_FAKE_STORE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/codec/chosen_fields.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/row.h"
#include "kvstore/gateway/client_connection.h"
#include "kvstore/gateway/redis_numbers.h"
#include "kvstore/gateway/resp_protocol.h"
#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "rpc/base/lease.h"

namespace skua::kv::gateway {

/// Memory that values are lent from, until nobody holds them.
class FakeValueMemory : public rpc::LeaseOwner {
 public:
  ValueView lend(std::string_view bytes) {
    const std::string& kept = lent_[++latest_] = std::string(bytes);
    bytes_held += kept.size();
    most_bytes_held = std::max(most_bytes_held, bytes_held);
    return {kept, rpc::Lease({}, this, latest_)};
  }
  void return_lease(uint64_t cookie) override {
    bytes_held -= lent_[cookie].size();
    lent_.erase(cookie);
  }

  size_t bytes_held = 0;
  size_t most_bytes_held = 0;

 private:
  std::map<uint64_t, std::string> lent_;
  uint64_t latest_ = 0;
};

class FakeStore {
 public:
  struct Entry {
    std::string value;
    uint64_t version = 0;
    std::optional<int64_t> expires_at_ms;
    RecordMark mark{};
  };

  StoreResult run(const StoreRequest& request, int64_t now_ms) {
    if (request.kind == StoreRequest::Kind::kPuts) return puts(request, now_ms);
    ++request_count;
    if (on_request) {
      if (std::optional<StoreResult> result = on_request(request)) return std::move(*result);
    }
    auto& table = tables[request.database];
    std::erase_if(table, [&](const auto& entry) {
      return entry.second.expires_at_ms.has_value() && *entry.second.expires_at_ms <= now_ms;
    });
    if (request.kind == StoreRequest::Kind::kScan) return scan(request);
    if (request.kind == StoreRequest::Kind::kBatch) return batch(request, now_ms);
    const std::string key(request.key);
    const auto found = table.find(key);
    const uint64_t version = found == table.end() ? 0 : found->second.version;
    if (request.if_absent && version != 0) return {.status = StoreResult::Status::kExists};
    if (request.if_present && version == 0) return {.status = StoreResult::Status::kNotFound};
    if (request.if_version.has_value() && *request.if_version != version) {
      const bool edits = request.kind == StoreRequest::Kind::kEdit;
      return {.status = edits ? StoreResult::Status::kNotARow : StoreResult::Status::kOtherVersion};
    }
    if (request.kind == StoreRequest::Kind::kGet) {
      return version == 0 ? StoreResult{.status = StoreResult::Status::kNotFound}
                          : read(found->second, request, now_ms);
    }
    return write(request, table, key, now_ms);
  }

  /// Which shard a key is in; none: there is one.
  std::function<uint32_t(std::string_view)> shard_of_key;
  FakeValueMemory memory;
  std::map<uint32_t, std::map<std::string, Entry>> tables;
  size_t request_count = 0;
  /// Something else than the store's own result.
  std::function<std::optional<StoreResult>(const StoreRequest&)> on_request;

 private:
  StoreResult read(const Entry& entry, const StoreRequest& request, int64_t now_ms) {
    std::string value = entry.value;
    if (!request.fields.empty()) {
      std::string names;
      SKUA_CHECK(encode_field_names(request.fields, names).ok(), "names that no field can have");
      const StringList list(as_byte_span(names), request.fields.size());
      const auto chosen = ChosenFields::of(as_byte_span(entry.value), list);
      if (!chosen.has_value()) return {.status = StoreResult::Status::kNotARow};
      value.clear();
      chosen->append_to(value);
    }
    StoreResult out{.version = entry.version, .value = memory.lend(value)};
    if (request.with_mark) out.mark = entry.mark;
    if (request.with_ttl && entry.expires_at_ms.has_value())
      out.ttl_ms = static_cast<uint64_t>(*entry.expires_at_ms - now_ms);
    return out;
  }

  StoreResult write(const StoreRequest& request, std::map<std::string, Entry>& table, const std::string& key,
                    int64_t now_ms) {
    const bool is_there = table.contains(key);
    StoreResult out;
    std::optional<int64_t> expires_at;
    if (request.ttl_ms > 0) expires_at = now_ms + static_cast<int64_t>(request.ttl_ms);
    switch (request.kind) {
      case StoreRequest::Kind::kRemove:
        if (!is_there) return {.status = StoreResult::Status::kNotFound};
        table.erase(key);
        return out;
      case StoreRequest::Kind::kExpire:
        if (!is_there) return {.status = StoreResult::Status::kNotFound};
        table[key].expires_at_ms = expires_at;
        break;
      case StoreRequest::Kind::kPut:
        table[key].value = request.value;
        table[key].mark = request.mark;
        if (!request.keep_ttl) table[key].expires_at_ms = expires_at;
        break;
      case StoreRequest::Kind::kAppend:
        if (table[key].mark.row) return {.status = StoreResult::Status::kRefused, .text = "IS_A_ROW"};
        table[key].value += request.value;
        break;
      case StoreRequest::Kind::kEdit: return edit(request, table, key);
      case StoreRequest::Kind::kAdd: {
        const std::optional<int64_t> before = is_there ? parse_integer(table[key].value) : 0;
        if (!before.has_value()) return {.status = StoreResult::Status::kNotANumber};
        if (__builtin_add_overflow(*before, request.delta, &out.number)) {
          return {.status = StoreResult::Status::kOverflow};
        }
        table[key].value = std::to_string(out.number);
        break;
      }
      default: break;
    }
    table[key].version = out.version = ++version_;
    return out;
  }

  StoreResult edit(const StoreRequest& request, std::map<std::string, Entry>& table, const std::string& key) {
    const bool is_there = table.contains(key);
    if (!is_there && !request.creates) return {.status = StoreResult::Status::kNotFound};
    if (is_there && !table[key].mark.row) return {.status = StoreResult::Status::kNotARow};
    StoreResult out;
    std::string row;
    const std::string before = is_there ? table[key].value : "";
    switch (edit_row(as_byte_span(before), as_byte_span(request.value), row, out.fields)) {
      case Edited::kDone: break;
      case Edited::kUnchanged: return out;
      default: return {.status = StoreResult::Status::kRefused, .text = "the row would be beyond a limit"};
    }
    table[key].value = row;
    if (!is_there) table[key].mark = request.mark;
    table[key].version = out.version = ++version_;
    if (out.fields.left == 0) table.erase(key);
    return out;
  }

  /// on_request sees each of them.
  StoreResult puts(const StoreRequest& request, int64_t now_ms) {
    StoreResult out;
    for (size_t i = 1; i < request.puts->size(); i += 2) {
      StoreRequest put{.kind = StoreRequest::Kind::kPut, .key = (*request.puts)[i], .value = (*request.puts)[i + 1]};
      put.database = request.database;
      StoreResult result = run(put, now_ms);
      if (!result.ok()) out.failed_puts.push_back({static_cast<uint32_t>(i / 2), result.status, result.text});
    }
    return out;
  }

  StoreResult batch(const StoreRequest& request, int64_t now_ms) {
    auto& table = tables[request.database];
    const std::vector<StoreRequest>& operations = *request.batch;
    for (size_t i = 0; i < operations.size(); ++i) {
      const StoreRequest& operation = operations[i];
      if (shard_of_key && shard_of_key(operation.key) != shard_of_key(operations[0].key)) {
        return {.status = StoreResult::Status::kManyShards};
      }
      const auto found = table.find(std::string(operation.key));
      const uint64_t version = found == table.end() ? 0 : found->second.version;
      const bool holds = (!operation.if_absent || version == 0) && operation.if_version.value_or(version) == version;
      if (!holds) return {.status = StoreResult::Status::kOtherVersion, .failed_operation = i};
    }
    for (const StoreRequest& operation : operations) {
      if (operation.kind != StoreRequest::Kind::kCheck) write(operation, table, std::string(operation.key), now_ms);
    }
    return {};
  }

  StoreResult scan(const StoreRequest& request) {
    StoreResult out;
    out.scan = std::make_unique<ScanResult>();
    auto& table = tables[request.database];
    auto at = table.lower_bound(std::string(request.key));
    for (; at != table.end() && (request.end.empty() || at->first < request.end); ++at) {
      ++out.scan->count;
      if (request.count_only) continue;
      if (out.scan->rows.size() == request.rows_max) {
        out.scan->has_more = true;
        out.scan->next_start = at->first;
        break;
      }
      out.scan->rows.push_back({keep(at->first), request.keys_only ? std::string_view() : keep(at->second.value),
                                at->second.version, request.with_mark ? at->second.mark : RecordMark{}});
    }
    return out;
  }

  /// Bytes that live as long as the store: results are views.
  std::string_view keep(std::string_view bytes) { return kept_.emplace_back(bytes); }

  std::deque<std::string> kept_;
  uint64_t version_ = 0;
};

/// What one thread of a gateway has, over a FakeStore.
class FakeGateway {
 public:
  FakeGateway() {
    identity.skua_version = "0";
    identity.run_id = std::string(40, 'a');
    identity.port = 6379;
    identity.threads = 1;
    identity.connections_max = 100;
    identity.databases = {{0, "cache"}, {3, "users"}};
    identity.cursors = std::make_unique<ScanCursors>(5);
  }

  GatewayIdentity identity;
  GatewayContext context{identity};
  FakeStore store;
  int64_t now_us = 1'700'000'000'000'000;
  [[nodiscard]] int64_t now_ms() const { return now_us / 1000; }
};

/// A client and its connection. Requests to the store wait until somebody answers them.
class FakeClient {
 public:
  explicit FakeClient(FakeGateway& gateway, std::unique_ptr<WireProtocol> protocol = std::make_unique<RespProtocol>())
      : gateway_(gateway),
        connection_(gateway.context,
                    {.id = gateway.identity.next_client_id++,
                     .remote = "127.0.0.1:5000",
                     .local = "127.0.0.1:6379",
                     .connected_ms = gateway.now_ms()},
                    std::move(protocol)) {}

  ClientConnection& connection() { return connection_; }
  std::deque<IssuedRequest>& waiting() { return waiting_; }

  /// Returns what the connection did not take.
  std::string_view send(std::string_view bytes) {
    connection_.receive(bytes, gateway_.now_us);
    take_requests();
    return bytes;
  }
  /// Carries out the request, and tells the connection.
  void answer(size_t index) {
    const IssuedRequest issued = waiting_[index];
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
    StoreResult result = gateway_.store.run(issued.request, gateway_.now_ms());
    connection_.complete(issued.ticket, std::move(result), gateway_.now_us);
    take_requests();
  }
  void answer_all() {
    while (!waiting_.empty()) answer(0);
  }
  /// Takes `bytes_max` bytes of the replies.
  std::string take_output(size_t bytes_max = SIZE_MAX) {
    std::string out;
    while (!connection_.output().empty() && out.size() < bytes_max) {
      std::array<std::string_view, 8> pieces;
      const size_t count = connection_.output().peek(pieces);
      size_t taken = 0;
      for (size_t i = 0; i < count; ++i) {
        const std::string_view part = pieces[i].substr(0, bytes_max - out.size());
        out += part;
        taken += part.size();
      }
      connection_.sent(taken, gateway_.now_us);
    }
    take_requests();
    return out;
  }
  /// Sends, answers, and returns the replies. `line`: an inline command, without its end.
  std::string ask(std::string_view line) {
    send(std::string(line) + "\r\n");
    answer_all();
    return take_output();
  }

 private:
  void take_requests() {
    std::vector<IssuedRequest> requests;
    connection_.take_requests(requests);
    for (IssuedRequest& request : requests) waiting_.push_back(std::move(request));
  }

  FakeGateway& gateway_;
  ClientConnection connection_;
  std::deque<IssuedRequest> waiting_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_TESTS_KVSTORE_GATEWAY_FAKE_STORE_H_
