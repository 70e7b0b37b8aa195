// What an endpoint does about links: it looks at the port and at its queue pair every 50 ms, brings the queue pair back
// from errors, and tells the engine which peers it does not reach, and why.
#include <algorithm>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "rpc/transport/verbs/verbs_transport.h"

namespace skua::rpc::verbs {
namespace {

constexpr size_t kLinkEventsMax = 1024;
constexpr DurationNs kWatchEvery = 50 * kMillisecond;

}  // namespace

size_t VerbsTransport::poll_links(std::span<LinkEvent> events) {
  return ++turns_ % kTurnsPerLook != 0 && events_.empty() ? 0 : look_at_links(events);
}

size_t VerbsTransport::look_at_links(std::span<LinkEvent> events) {
  if (const TimeNs now = clock_.now_ns(); now >= next_watch_ns_) {
    next_watch_ns_ = now + kWatchEvery;
    now_ns_ = now;
    watch(now);
  }
  if (connections_ != nullptr && connections_->next_timer_ns() != kTimeNever) connections_->run_timers(clock_.now_ns());
  if (!unresolved_.empty()) report_unresolved();
  const size_t count = std::min(events.size(), events_.size());
  std::move(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count), events.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void VerbsTransport::recover(TimeNs now) {
  if (now < next_restart_ns_) return;
  next_restart_ns_ = now + kRestartEvery;
  trouble_ = queue_->restart();
  if (trouble_.ok()) ++stats_.restarts;
}

void VerbsTransport::watch(TimeNs now) {
  device_.drain_events();
  queue_->look_for_error();
  if (queue_->in_error()) recover(now);
  if (connections_ != nullptr) connections_->watch();
  std::erase_if(replaced_, [&](const auto& handle) { return handle.first <= queue_->completed_count(); });
  const bool up = device_.link_up();
  if (!link_.look(up && trouble_.ok(), now).complaint) return;
  const absl::Status why = absl::UnavailableError(
      up ? absl::StrCat("RDMA port ", device_.name(),
                        ": its queue pair is in error and does not restart: ", trouble_.message())
         : absl::StrCat("RDMA port ", device_.name(), " has had no link for ", link_.down_ns(now) / kMillisecond,
                        " ms: is the cable in, the interface up, and on InfiniBand a subnet manager there?"));
  for (PeerId id = 0; id < peers_.size(); ++id) complain(id, why);
}

void VerbsTransport::report_unresolved() {
  std::erase_if(unresolved_, [&](PeerId id) {
    const Peer& peer = peers_.at(id);
    if (peer.handle->pending()) return false;
    if (const int error = peer.handle->error(); error != 0) {
      complain(id, absl::UnavailableError(absl::StrCat("no way from ", device_.name(), " (", address_.gid.to_string(),
                                                       ") to ", peer.address.gid.to_string(), ": ",
                                                       std::generic_category().message(error),
                                                       "; is it up, and in a network that this port reaches?")));
    }
    return true;
  });
}

void VerbsTransport::complain(PeerId peer, absl::Status why) {
  if (events_.size() >= kLinkEventsMax) return;
  LinkEvent& event = events_.emplace_back();
  event.peer = peer;
  event.kind = LinkEvent::Kind::kRefused;
  event.why = std::move(why);
}

}  // namespace skua::rpc::verbs
