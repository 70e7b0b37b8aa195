#include "kvstore/service/admission.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kvstore/service/service_limits.h"
#include "rpc/base/status.h"

namespace skua::kv {

using rpc::IncomingCall;
using rpc::ReplyToken;

HeldShard* Admission::admit(IncomingCall& call, Method method) {
  const absl::StatusOr<Route> route = decode_route(call.request.bytes());
  if (route.ok()) [[likely]] {
    return admit(call, method, *route);
  }
  replies_.stats().request_bytes += call.request.size();
  if (!is_within_quota(call, method, 0)) return nullptr;
  replies_.error(call.reply, method,
                 {KvStatus::kInvalidArgument, 0, 0, replies_.map_revision(), 0, std_view(route.status().message())});
  return nullptr;
}

HeldShard* Admission::admit(IncomingCall& call, Method method, const Route& route) {
  const TimeNs now = endpoint_.now_ns();
  shards_.tell_time(now);
  replies_.stats().request_bytes += call.request.size();
  if (call.deadline_ns <= now) [[unlikely]] {
    ++replies_.stats().deadline_expired;
    // Counts against the quota: the node has read the request, and a client could choose deadlines that are always
    // over.
    if (!is_within_quota(call, method, 0)) return nullptr;
    call.reply.fail(
        absl::DeadlineExceededError("the deadline had passed when the node read the request; it was not executed"));
    return nullptr;
  }
  HeldShard* const shard = shards_.find({route.table_id, route.shard});
  if (shard == nullptr) [[unlikely]] {
    return refuse(call, method, route, shard);
  }
  if (shard->plain_epoch == route.epoch && route.epoch != 0) [[likely]] {
    return shard;
  }
  if (shard->epoch != route.epoch || shards_.is_draining() || shard->state != HeldShard::State::kServing ||
      (shard->replica != nullptr && !serves(*shard, method))) {
    return refuse(call, method, route, shard);
  }
  if (shard->checks_caller) [[unlikely]] {
    if (!is_within_quota(call, method, shard->epoch)) return nullptr;
    if (shard->grants != nullptr && !owners_.may(call.session, *shard->grants, needed(method))) {
      return refuse_right(call, method, *shard);
    }
  }
  return shard;
}

// --- Quotas

/// Counts the request. False: its client has used up a quota, and the request was answered.
bool Admission::is_within_quota(IncomingCall& call, Method method, uint64_t epoch) {
  QuotaAccount* const account = owners_.account(call.session);
  if (account == nullptr) return true;
  const std::optional<QuotaKind> used_up = account->within(call.request.size(), endpoint_.now_ns());
  if (!used_up.has_value()) return true;
  refuse_quota(call, method, epoch, *account, *used_up);
  return false;
}

void Admission::refuse_quota(IncomingCall& call, Method method, uint64_t epoch, QuotaAccount& account, QuotaKind kind) {
  owners_.ledger().count_refusal(kind);
  replies_.error_uncounted(
      call.reply, method,
      {KvStatus::kResourceExhausted, 0, epoch, replies_.map_revision(), 0, account.quota().refusal(kind)});
}

bool Admission::takes_client_id(IncomingCall& call, Method method, const HeldShard& shard, const RequestId& id) {
  if (!shard.checks_caller || id.client_id == 0) return true;
  QuotaAccount* const account = owners_.account(call.session);
  if (account == nullptr || account->admit(id.client_id, endpoint_.now_ns())) return true;
  if (shard.shard->is_repetition(id)) return true;
  refuse_quota(call, method, shard.epoch, *account, QuotaKind::kClientIds);
  return false;
}

// --- Refusals

/// True: this replica may answer the request. A backup answers reads as long as they are linearizable. A client that is
/// refused here goes to the primary.
bool Admission::serves(const HeldShard& shard, Method method) const {
  if (shard.replica->is_serving()) [[likely]] {
    return true;
  }
  const bool is_read = method == Method::kGet || method == Method::kMultiGet || method == Method::kScan;
  return is_read && shard.reads_as_backup() && is_fresh(shard, shards_.boot_ns());
}

/// Answers WRONG_SHARD, whatever the reason. This status says to reads and writes alike: certainly not executed, and
/// try again, perhaps elsewhere.
HeldShard* Admission::refuse(IncomingCall& call, Method method, const Route& route, const HeldShard* shard) {
  if (!is_within_quota(call, method, shard == nullptr ? 0 : shard->epoch)) return nullptr;
  const uint64_t revision = replies_.map_revision();
  ReplyHead head{KvStatus::kWrongShard, 0, shard == nullptr ? 0 : shard->epoch, revision, 0, {}};
  std::string why;
  const bool wrong = shard == nullptr || shard->epoch != route.epoch;
  if (shards_.is_draining()) {
    head.text = "the node is shutting down";
  } else if (wrong && route.map_revision > revision) {
    head.text = "the node has not applied the shard map that the request names; try again";
    tell_of_newer_map();
  } else if (wrong) {
    head.text = "this worker does not serve the shard in that epoch; refresh the shard map";
  } else if (shard->state == HeldShard::State::kOpening) {
    head.text = "the shard is being opened; try again";
  } else if (shard->replica != nullptr) {
    why = shard->replica->why_not();
    head.text = why;
  } else {
    head.text = shard->why;
  }
  replies_.error(call.reply, method, head);
  return nullptr;
}

HeldShard* Admission::refuse_right(IncomingCall& call, Method method, const HeldShard& shard) {
  const std::string who = owners_.owner_of(call.session);
  const std::string& table = shard.grants->name;
  const char* const right = right_name(needed(method));
  std::string why;
  if (who.empty()) {
    why = absl::StrCat("no right to ", right, " table ", table,
                       ", which has grants: they are for clients with certificates (skuactl grant list)");
  } else {
    why = absl::StrCat(who, " has no right to ", right, " table ", table);
    const std::string command =
        absl::StrCat("; an administrator can give it: skuactl grant add ", who, " ", table, " ", right);
    // A cut command could name another table or right, so it is left out if the text would be too long.
    if (why.size() + command.size() <= kErrorTextBytesMax) why += command;
  }
  replies_.error(call.reply, method, shard, KvStatus::kPermissionDenied, why);
  return nullptr;
}

/// Hints are limited by time, and not by the highest revision that was named. A revision is only a client's claim:
/// after a claim of the highest possible revision, no later one would count as new.
void Admission::tell_of_newer_map() {
  const TimeNs now = endpoint_.now_ns();
  if (!newer_map_observer_ || now < next_map_hint_ns_) return;
  next_map_hint_ns_ = now + kMapHintPauseNs;
  newer_map_observer_();
}

bool Admission::takes_writes(IncomingCall& call, Method method, const HeldShard& shard) {
  if (shard.replica == nullptr || shard.replica->takes_writes()) [[likely]] {
    return true;
  }
  replies_.error(call.reply, method, shard, KvStatus::kWrongShard, shard.replica->why_not());
  return false;
}

// --- Requests that outlive their handlers

PendingRequest* Admission::begin(RequestService& service, rpc::Lease& request, ReplyToken& reply, Method method,
                                 HeldShard& shard) {
  PendingRequest* const pending = pool_.acquire();
  if (pending == nullptr) {
    replies_.error(reply, method, shard, KvStatus::kResourceExhausted,
                   "the worker has kPendingRequestsMax requests waiting; try again later");
    return nullptr;
  }
  pending->service = &service;
  pending->method = method;
  pending->shard = &shard;
  pending->epoch = shard.read_epoch();
  pending->request = std::move(request);
  pending->reply = std::move(reply);
  HeldShards::use(shard);
  return pending;
}

void Admission::end(PendingRequest& pending) {
  HeldShard& shard = *pending.shard;
  pool_.release(pending);
  shards_.release(shard);
}

void Admission::fail(PendingRequest& pending, const absl::Status& why) {
  replies_.error(pending.reply, pending.method, *pending.shard, why);
  pending.multi_get.release();
  end(pending);
}

void Admission::fail_late(PendingRequest& pending) {
  ++replies_.stats().deadline_expired;
  pending.reply.fail(absl::DeadlineExceededError("the deadline passed while the request waited for the disk"));
  pending.multi_get.release();
  end(pending);
}

// --- Whether what was read may be told

void Admission::answer_when_fresh(PendingRequest& pending) {
  HeldShard& shard = *pending.shard;
  if (shard.replica == nullptr) return pending.service->answer(pending);
  // A value that was read in one epoch is not valid in another: another replica may have led in between.
  const bool same_epoch = pending.epoch == shard.read_epoch();
  if (same_epoch && is_fresh(shard, shards_.boot_ns())) [[likely]] {
    count_backup_read(shard);
    return pending.service->answer(pending);
  }
  const auto then = [this, &pending](bool confirmed) {
    pending.share.reset();  // answer() reserves the reply's
    if (confirmed) return pending.service->answer(pending);
    refuse_stale(pending.reply, pending.method, *pending.shard);
    end(pending);
  };
  if (!same_epoch) return then(false);
  if (const size_t bytes = pending.result_bytes(); bytes > kShortReplyBytesMax) {
    std::optional<rpc::Lease> share = replies_.reserve(pending.reply, pending.method, shard, bytes);
    if (!share.has_value()) return end(pending);
    pending.share = *std::move(share);
  }
  confirm(shard, then);
}

void Admission::refuse_stale(ReplyToken& reply, Method method, const HeldShard& shard) {
  replies_.error(reply, method, shard, KvStatus::kWrongShard,
                 "the shard may have another primary now; refresh the shard map");
}

/// The status is not WRONG_SHARD, because this backup can answer for another key, or for the same key a moment later.
void Admission::refuse_unsettled(ReplyToken& reply, Method method, const HeldShard& shard) {
  replies_.error(reply, method, shard, KvStatus::kUnavailable,
                 "this backup has a write of the key under way; ask the primary");
}

}  // namespace skua::kv
