// GetGroups: GETs that one connection sends together, by shard. Each group is one MULTI_GET.
//
//    connection 1:  GET a, GET b, GET c --+-->  shard 0: a, c  ---> MULTI_GET
//                                         '-->  shard 1: b     ---> GET
//    connection 2:  GET a ------------------->  shard 0: a     ---> GET
//
// A MULTI_GET of many keys costs the client, the network and the node little more than one GET does. The values of a
// group lie in one answer. They are lent to the commands only while they are handed over, and the commands copy them.
//
// No key of a group waits for another one: a group is answered with what the node has in memory (memory_only). Keys
// that must be read from a disk, and large values, are asked for alone. If most keys of a group are such keys, the GETs
// of the table go alone for a while. Connections do not share a group, because its GETs fail together.
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
inline constexpr size_t kGroupGetsMax = 64;
inline constexpr size_t kGroupKeyBytesMax = size_t{64} << 10;
/// GETs in groups at a time. Each of them may have to be asked for alone, and the client bounds its operations.
inline constexpr size_t kGetsInGroupsMax = size_t{1} << 14;
/// Groups are of no use for larger values: alone they go from the answer to the client's socket without a copy.
inline constexpr size_t kGroupedGetValueBytesMax = 1024;
/// After a group that was of no use, this many GETs of its table go alone.
inline constexpr uint32_t kGetsAlone = 1024;

/// Thread: the AsyncClient's.
class GetGroups {
 public:
  /// Gets the result of a GET: from inside AsyncClient::poll(), its destructor, add() or flush(). The value is valid
  /// during the call. `place`: as given to add().
  using DoneFn = absl::AnyInvocable<void(uint32_t place, StoreResult&& result)>;
  /// Asks for the key alone. Called instead of DoneFn, from inside the same calls.
  using AloneFn = absl::AnyInvocable<void(const std::string& table, std::string_view key, uint32_t place)>;

  /// `client` must outlive the object.
  GetGroups(AsyncClient& client, DoneFn on_done, AloneFn ask_alone);
  GetGroups(const GetGroups&) = delete;
  GetGroups& operator=(const GetGroups&) = delete;

  /// False: nothing was done, and the request goes alone. The command keeps the value (StoreRequest::borrows_value),
  /// groups are of no use for the table just now, too many GETs are in groups, or the client does not know the table
  /// yet. `table` must outlive the object; what the request points to need not live longer than the call.
  [[nodiscard]] bool add(const std::string& table, const StoreRequest& request, uint32_t place);
  /// Sends what was added: at the end of what one connection sends together.
  void flush();

 private:
  /// Used again for later groups.
  struct Group {
    const std::string* table = nullptr;
    std::string key_bytes;  // one key after the other
    std::vector<size_t> key_ends;
    [[nodiscard]] std::string_view key(size_t index) const {
      const size_t begin = index == 0 ? 0 : key_ends[index - 1];
      return std::string_view(key_bytes).substr(begin, key_ends[index] - begin);
    }
    size_t useless_count = 0;  // keys that were asked for alone, or have large values
    std::vector<uint32_t> places;
  };

  void send(Group& group);
  [[nodiscard]] absl::Status submit(Group& group);
  void end(Group& group, const MultiGetResult& result);
  void end_key(Group& group, size_t index, const MultiGetResult& result);
  void ask_alone(Group& group, size_t index);
  void free(Group& group);

  AsyncClient& client_;
  DoneFn on_done_;
  AloneFn ask_alone_;
  ShardGroups<Group> groups_;
  absl::flat_hash_map<const std::string*, uint32_t> gets_alone_;  // by table: so many are left
  size_t grouped_count_ = 0;                                      // GETs in groups
  std::vector<std::string_view> keys_;                            // of the group that is sent
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GET_GROUPS_H_
