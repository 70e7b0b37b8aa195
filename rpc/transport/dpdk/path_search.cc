#include "rpc/transport/dpdk/path_search.h"

namespace skua::rpc::dpdk {

void PathSearch::want(PeerId id, const FrameSource& at, uint16_t device_mtu, uint64_t nonce, TimeNs now) {
  if (paths_.size() <= id) paths_.resize(id + 1);
  auto& [to, path] = paths_[id];
  if (!(to == at)) {
    to = at;
    path.reset();
    std::erase(searching_, id);
  }
  const bool before = path.searching();
  path.want(device_mtu, nonce, now);
  if (path.searching() && !before) searching_.push_back(id);
}

void PathSearch::begin_rounds(TimeNs now) {
  std::erase_if(searching_, [&](PeerId id) { return now >= paths_[id].mtu.next_round_ns() && !begin_round(id, now); });
}

/// False: the search has ended.
bool PathSearch::begin_round(PeerId id, TimeNs now) {
  PathMtu& path = paths_[id].mtu;
  if (!wire_.has_link(id)) {
    path.postpone(now);
    return true;
  }
  const uint16_t before = path.mtu();
  for (const uint16_t ip_bytes : path.begin_round(now)) {
    wire_.ask(id, PathProbe{path.nonce(), ip_bytes, PathProbe::Kind::kAsk});
  }
  if (path.mtu() != before) wire_.on_path_mtu(id, before);
  return path.searching();
}

void PathSearch::on_echo(PeerId from, ByteSpan payload) {
  PathProbe echo;
  if (from >= paths_.size() || !PathProbe::read(payload, echo)) return;
  PathMtu& path = paths_[from].mtu;
  const uint16_t before = path.mtu();
  path.on_echo(echo.nonce, echo.ip_bytes);
  if (path.mtu() != before) wire_.on_path_mtu(from, before);
}

}  // namespace skua::rpc::dpdk
