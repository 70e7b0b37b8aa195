#include "tests/kvstore/replication/sim_network.h"

#include <algorithm>
#include <utility>

namespace skua::kv::sim {

void SimNetwork::send(Address from, Address to, std::function<void()> deliver) {
  Link& way = link(from, to);
  if (!healed_) {
    if (kernel_.now() < way.cut_until || kernel_.rng.chance(options_.loss)) return;
    if (kernel_.rng.chance(options_.duplicate)) schedule(way, deliver);
  }
  schedule(way, std::move(deliver));
}

void SimNetwork::schedule(Link& link, std::function<void()> deliver) {
  TimeNs at = kernel_.now() + options_.latency_ns + kernel_.between(0, options_.jitter_ns);
  if (!healed_ && kernel_.rng.chance(options_.delay)) at += kernel_.between(0, options_.delay_ns);
  at = std::max(at, link.clogged_until);
  if (options_.ordered) at = link.last_arrival = std::max(at, link.last_arrival + 1);
  kernel_.queue.at(at, std::move(deliver));
}

void SimNetwork::heal() {
  healed_ = true;
  for (Link& link : links_) link.cut_until = link.clogged_until = 0;
}

}  // namespace skua::kv::sim
