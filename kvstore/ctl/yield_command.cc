// skuactl node yield.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "app/signals.h"
#include "app/value_text.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/cluster_view.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/lead_transfers.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;
using control::ClusterStatus;

constexpr DurationNs kWaitNs = 30 * kSecond;

/// The shards of one node get other primaries. A transfer may be refused, or cross with a change of the control plane's
/// own; so each round looks at what the node leads now.
class Yielding {
 public:
  Yielding(AdminClient& admin, ClusterStatus::Node node) : admin_(admin), node_(std::move(node)) {}

  /// Asks for the transfers that are left. An error: what prevents them, or what the control plane says.
  absl::Status round() {
    const absl::StatusOr<ClusterStatus> status = admin_.status();
    if (!status.ok()) return status.status();
    const absl::StatusOr<control::ShardMap> map = admin_.shard_map();
    if (!map.ok()) return map.status();
    const LeadTransfers left = lead_transfers_from(*status, *map, node_.info.uuid);
    left_count_ = left.transfers.size();
    staying_count_ = left.staying_count;
    absl::Status refused;
    for (const LeadTransfer& transfer : left.transfers) {
      const absl::Status asked = admin_.transfer_primary(transfer.table, transfer.shard, transfer.to_uuid);
      asked_ = true;
      if (asked.ok()) continue;
      refused = with_words(absl::StrCat("shard ", transfer.shard, " of table ", transfer.table, ": "), asked);
    }
    return refused;
  }

  [[nodiscard]] size_t left_count() const { return left_count_; }

  int report(const Globals& globals) const {
    std::string text = absl::StrCat("node ", node_.info.uuid, " (", node_.info.grpc_address, ") ",
                                    staying_count_ == 0 ? "leads no shard" : "leads no shard that another node could");
    if (staying_count_ > 0) {
      absl::StrAppend(&text, ": ", counted(staying_count_, "shard"),
                      " without another live member will be away while it is stopped");
    }
    return answer(globals,
                  {{"uuid", node_.info.uuid},
                   {"grpc_address", node_.info.grpc_address},
                   {"done", "yielded"},
                   {"shards_staying", staying_count_},
                   {"note", asked_ ? "" : "it led none before"}},
                  absl::StrCat(text, "\n"));
  }

 private:
  AdminClient& admin_;
  ClusterStatus::Node node_;
  bool asked_ = false;
  size_t left_count_ = 0;
  size_t staying_count_ = 0;
};

int yield_until(const Globals& globals, Yielding& yielding, app::StopSignal& stop, DurationNs wait_ns) {
  const SteadyClock clock;
  const TimeNs end = clock.now_ns() + wait_ns;
  while (true) {
    const absl::Status round = yielding.round();
    if (round.ok() && yielding.left_count() == 0) return yielding.report(globals);
    const std::string left =
        round.ok() ? counted(yielding.left_count(), "shard") + " left" : std::string(round.message());
    if (clock.now_ns() + kLookPause >= end) {
      return report_failure(absl::DeadlineExceededError(
          absl::StrCat("the node still leads shards after ", app::format_duration(wait_ns), ": ", left,
                       ". Give it longer by --wait; skuactl status tells what the cluster is waiting for")));
    }
    if (stop.wait_for(kLookPause)) {
      return report_failure(absl::CancelledError(absl::StrCat("no longer waiting: ", left)));
    }
  }
}

struct YieldArguments {
  std::string node;
  DurationNs wait_ns = kWaitNs;
};

int yield(const Globals& globals, const YieldArguments& arguments) {
  const std::unique_ptr<app::StopSignal> stop = stop_signal_of_wait(arguments.wait_ns);
  AdminClient admin = admin_of(globals);
  Yielding yielding(admin, must(find_node(must(admin.status()), arguments.node)));
  return yield_until(globals, yielding, *stop, arguments.wait_ns);
}

}  // namespace

void add_yield_command(app::Command& nodes, const Globals& globals) {
  const auto [command, arguments] =
      add_command(nodes, "yield", "Has other nodes lead the shards of a node.", globals, yield);
  command.description(
      "Clients then do not wait for another primary when the node is gone. A node that is asked to stop (SIGTERM) does "
      "so by itself: use this before it is killed, or cut off from the network. The node keeps its replicas, and may "
      "lead shards again later. Unlike drain, it changes nothing for good. Shards without another live member stay.");
  add_node_argument(command, arguments.node);
  command.add_duration("wait", &arguments.wait_ns, "How long it may take until the node leads no shard (exit code 1).")
      .range(kMillisecond, 3600 * kSecond);
  command.example("skuactl node yield 10.0.0.3:7500", "before work at the network of that machine");
}

}  // namespace skua::kv::ctl
