// PutGroups: PUTs without conditions that come in one turn of the gateway's thread, by shard. Each group is one BATCH.
//
//    connection 1:  SET a 1, SET b 2 --.     shard 0: a, c  ---> BATCH
//    connection 2:  SET c 3 -----------+-->  shard 1: b     ---> PUT
//
// A batch of many PUTs costs the client, the network and the node little more than one PUT does: one request, one
// record in the log, one completion. The PUTs of a group are applied all or none, which is more than their clients ask
// for. Their order within the group does not matter: a connection has one write of a key under way at a time
// (hazards.h), and writes of different connections that meet have no order.
#ifndef SKUA_KVSTORE_GATEWAY_PUT_GROUPS_H_
#define SKUA_KVSTORE_GATEWAY_PUT_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kvstore/client/async_client.h"
#include "kvstore/gateway/shard_groups.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// Larger values go alone: copying them into a batch costs more than the batch saves.
inline constexpr size_t kGroupedValueBytesMax = 4096;
/// PUTs of one group, and bytes of their keys and values at which it is sent.
inline constexpr size_t kGroupPutsMax = 128;
inline constexpr size_t kGroupBytesMax = size_t{64} << 10;

/// Thread: the AsyncClient's.
class PutGroups {
 public:
  /// Who asks for a PUT: one of the PUTs of a request.
  struct Member {
    uint32_t place = 0;  ///< of the request
    uint32_t index = 0;  ///< among the PUTs of the request
  };
  /// Gets the result of each PUT once: from inside AsyncClient::poll(), its destructor, add() or flush(). `members`:
  /// PUTs of one request, as given to add().
  using DoneFn = absl::AnyInvocable<void(std::span<const Member> members, const StoreResult& result)>;

  /// `client` must outlive the object.
  PutGroups(AsyncClient& client, DoneFn on_done);
  PutGroups(const PutGroups&) = delete;
  PutGroups& operator=(const PutGroups&) = delete;

  /// False: nothing was done, and the request goes alone. It has a condition, its client is told the version (all PUTs
  /// of a BATCH have the same), its value is large, or the AsyncClient does not know the table yet. `table` must
  /// outlive the object; what the request points to need not live longer than the call.
  [[nodiscard]] bool add(const std::string& table, const StoreRequest& request, Member member);
  /// Sends what was added.
  void flush();

 private:
  /// Used again for later groups.
  struct Group {
    const std::string* table = nullptr;
    // The first PUT, until there is a second: a PUT alone is not sent as a batch.
    std::string key;
    std::string value;
    BatchOpOptions options;

    Batch batch;
    size_t bytes = 0;  // of keys and values
    std::vector<Member> members;
  };

  void send(Group& group);
  [[nodiscard]] absl::Status submit(Group& group);
  /// All PUTs of the group have this result.
  void end(Group& group, const StoreResult& result);

  AsyncClient& client_;
  DoneFn on_done_;
  ShardGroups<Group> groups_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_PUT_GROUPS_H_
