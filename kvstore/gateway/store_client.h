// StoreClient: carries requests of commands to the cluster, by an AsyncClient, and tells what came of them.
#ifndef SKUA_KVSTORE_GATEWAY_STORE_CLIENT_H_
#define SKUA_KVSTORE_GATEWAY_STORE_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "kvstore/client/async_client.h"
#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/get_groups.h"
#include "kvstore/gateway/put_groups.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// Counts (StoreRequest::count_only) that are under way in one StoreClient. Nothing ends a count when its connection
/// closes, and a count may take minutes. Without a bound, connections that ask for a count and close would pile up
/// operations.
inline constexpr size_t kCountsMax = 4;

/// Thread: the AsyncClient's.
class StoreClient {
 public:
  /// Gets each result once: from inside AsyncClient::poll(), its destructor, or run(). `connection`: as given to run().
  using ResultFn = absl::AnyInvocable<void(uint64_t connection, const StoreTicket& ticket, StoreResult&& result)>;

  /// `client` and `tables` (by the number of their database) must outlive the object.
  StoreClient(AsyncClient& client, const std::map<uint32_t, std::string>& tables, ResultFn on_result);
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// What the request points to need not live longer than the call. A count beyond kCountsMax is answered kNotApplied
  /// from inside the call.
  void run(uint64_t connection, const IssuedRequest& issued);
  /// Sends the GETs that wait for others of their connection (get_groups.h). Call it after run() for what a connection
  /// asks together.
  void flush_gets() { gets_.flush(); }
  /// Sends the PUTs that wait for others (put_groups.h). Call it at the end of each turn.
  void flush_puts() { puts_.flush(); }

 private:
  /// A request that the client has accepted. Callbacks name it by its place: so they are small, and need no memory.
  struct Pending {
    uint64_t connection = 0;
    StoreTicket ticket;
    StoreRequest::Kind kind = StoreRequest::Kind::kGet;
    bool is_count = false;
    size_t unanswered_puts = 0;  // of kPuts
    std::vector<StoreResult::FailedPut> failed_puts;
  };

  uint32_t add_pending(uint64_t connection, const IssuedRequest& issued);
  void run_puts(const CommandArguments& puts, const std::string& table, uint32_t place);
  void submit_or_refuse(const StoreRequest& request, const std::string& table, uint32_t place);
  absl::Status submit(const StoreRequest& request, const std::string& table, uint32_t place);
  absl::Status submit_batch(const StoreRequest& request, const std::string& table, uint32_t place);
  absl::Status submit_write(const StoreRequest& request, const std::string& table, uint32_t place);
  void finish_puts(std::span<const PutGroups::Member> members, const StoreResult& result);
  void finish(uint32_t place, StoreResult&& result);

  AsyncClient& client_;
  const std::map<uint32_t, std::string>& tables_;
  ResultFn on_result_;
  GetGroups gets_;
  PutGroups puts_;
  std::vector<Pending> pending_;
  std::vector<uint32_t> free_places_;
  size_t counts_ = 0;  // in pending_
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_STORE_CLIENT_H_
