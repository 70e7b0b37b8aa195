// GetGroups: GETs that one connection sends together, by shard. Each group is one MULTI_GET.
//
//    connection 1:  GET a, GET b, GET c --+-->  shard 0: a, c  ---> MULTI_GET
//                                         '-->  shard 1: b     ---> GET
//    connection 2:  GET a ------------------->  shard 0: a     ---> GET
//
// A MULTI_GET of many keys costs the client, the network and the node little more than one GET does. But all keys of a
// group wait for the one that the node must read from its disk, and fail together. So connections do not share a group.
// The values of a group lie in one answer. They are lent to the commands only while they are handed over, and the commands copy them.
// Large values are worth a call of their own: then their bytes go from the answer to the client's socket. So after a
// group of large values the GETs of the table go alone for a while.
#ifndef SKUA_KVSTORE_GATEWAY_GET_GROUPS_H_
#define SKUA_KVSTORE_GATEWAY_GET_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kvstore/client/async_client.h"
#include "kvstore/gateway/shard_groups.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// GETs of one group, and bytes of their keys at which it is sent.
inline constexpr size_t kGroupGetsMax = 32;
inline constexpr size_t kGroupKeyBytesMax = size_t{64} << 10;
/// Values of a group that are larger than this on average count as large.
inline constexpr size_t kGroupedGetBytesMax = 1024;
/// After a group of large values so many GETs of the table go alone.
inline constexpr uint32_t kGetsAlone = 1024;

/// Thread: the AsyncClient's.
class GetGroups {
 public:
  /// Gets the result of each GET once: from inside AsyncClient::poll(), its destructor, add() or flush(). Its value is
  /// valid during the call. `place`: as given to add().
  using DoneFn = absl::AnyInvocable<void(uint32_t place, StoreResult&& result)>;

  /// `client` must outlive the object.
  GetGroups(AsyncClient& client, DoneFn on_done);
  GetGroups(const GetGroups&) = delete;
  GetGroups& operator=(const GetGroups&) = delete;

  /// False: nothing was done, and the request goes alone. It keeps its value (StoreRequest::borrows_value), its table
  /// has large values, or the client does not know the table yet. `table` must outlive the object; what the request
  /// points to need not live longer than the call.
  [[nodiscard]] bool add(const std::string& table, const StoreRequest& request, uint32_t place);
  /// Sends what was added: at the end of what one connection sends together.
  void flush();

 private:
  /// Used again for later groups.
  struct Group {
    const std::string* table = nullptr;
    std::string key_bytes;  // one key after the other
    std::vector<size_t> key_ends;
    std::vector<uint32_t> places;
  };

  void send(Group& group);
  [[nodiscard]] absl::Status submit(Group& group);
  void end(Group& group, const GetResult& result);
  void end(Group& group, const MultiGetResult& result);
  void free(Group& group);

  AsyncClient& client_;
  DoneFn on_done_;
  ShardGroups<Group> groups_;
  absl::flat_hash_map<const std::string*, uint32_t> gets_alone_;  // by table: so many are left
  std::vector<std::string_view> keys_;                            // of the group that is sent
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GET_GROUPS_H_
