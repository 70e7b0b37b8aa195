#include "control/store/etcd_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/store/etcd_client.h"
#include "control/store/etcd_watch.h"
#include "control/store/transaction_rules.h"

namespace skua::control {
namespace {

int64_t to_etcd(uint64_t revision) {
  return static_cast<int64_t>(revision);
}

uint64_t from_etcd(int64_t revision) {
  return static_cast<uint64_t>(revision);
}

KeyValue key_value(const mvccpb::KeyValue& kv, size_t strip) {
  return {kv.key().substr(strip), kv.value(), from_etcd(kv.create_revision()), from_etcd(kv.mod_revision())};
}

void fill(etcdserverpb::RequestOp& to, const Operation& operation, const std::string& key_prefix) {
  const std::string key = key_prefix + operation.key;
  switch (operation.kind) {
    case Operation::Kind::kPut:
      to.mutable_request_put()->set_key(key);
      to.mutable_request_put()->set_value(operation.value);
      break;
    case Operation::Kind::kDelete: to.mutable_request_delete_range()->set_key(key); break;
    case Operation::Kind::kDeletePrefix:
      to.mutable_request_delete_range()->set_key(key);
      to.mutable_request_delete_range()->set_range_end(prefix_end(key));
      break;
  }
}

/// An absent key has mod_revision 0 for etcd, too.
etcdserverpb::TxnRequest to_etcd(const Transaction& transaction, const std::string& key_prefix) {
  etcdserverpb::TxnRequest request;
  for (const Compare& compare : transaction.compares) {
    etcdserverpb::Compare& to = *request.add_compare();
    to.set_key(key_prefix + compare.key);
    to.set_result(etcdserverpb::Compare::EQUAL);
    to.set_target(etcdserverpb::Compare::MOD);
    to.set_mod_revision(to_etcd(compare.mod_revision));
  }
  for (const Operation& operation : transaction.then_ops) fill(*request.add_success(), operation, key_prefix);
  for (const Operation& operation : transaction.else_ops) fill(*request.add_failure(), operation, key_prefix);
  return request;
}

/// The transaction, if the leader is still the same; else a look at who leads.
etcdserverpb::TxnRequest only_while_leading(etcdserverpb::TxnRequest transaction, const std::string& leader_key,
                                            uint64_t create_revision) {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& leads = *request.add_compare();
  leads.set_key(leader_key);
  leads.set_result(etcdserverpb::Compare::EQUAL);
  leads.set_target(etcdserverpb::Compare::CREATE);
  leads.set_create_revision(to_etcd(create_revision));
  *request.add_success()->mutable_request_txn() = std::move(transaction);
  request.add_failure()->mutable_request_range()->set_key(leader_key);
  return request;
}

absl::Status deposed(const etcdserverpb::TxnResponse& response) {
  std::string who = "nobody does";
  if (response.responses_size() == 1 && response.responses(0).response_range().kvs_size() == 1) {
    who = absl::StrCat(response.responses(0).response_range().kvs(0).value(), " does");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("this control process does not lead any more, ", who, "; nothing was changed"));
}

}  // namespace

EtcdStore::EtcdStore(std::unique_ptr<EtcdClient> client)
    : client_(std::move(client)), key_prefix_(client_->address().key_prefix()) {}

EtcdStore::~EtcdStore() = default;

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::open(const EtcdStoreOptions& options) {
  if (options.address.tls) {
    if (absl::Status status = check_etcd_tls(options.tls); !status.ok()) return status;
  }
  auto client = std::make_unique<EtcdClient>(options.address, options.call_timeout_ns, options.tls);
  etcdserverpb::RangeRequest request;
  request.set_key(options.address.leader_key());
  request.set_count_only(true);
  const auto answer = client->range(request, options.open_timeout_ns);
  if (!answer.ok()) return answer.status();
  return std::unique_ptr<EtcdStore>(new EtcdStore(std::move(client)));
}

const EtcdAddress& EtcdStore::address() const {
  return client_->address();
}

absl::StatusOr<GetResult> EtcdStore::get(const std::string& key) {
  etcdserverpb::RangeRequest request;
  request.set_key(key_prefix_ + key);
  const auto response = client_->range(request);
  if (!response.ok()) return response.status();
  GetResult result{std::nullopt, from_etcd(response->header().revision())};
  if (response->kvs_size() > 0) result.kv = key_value(response->kvs(0), key_prefix_.size());
  return result;
}

absl::StatusOr<RangeResult> EtcdStore::range(const std::string& prefix) {
  etcdserverpb::RangeRequest request;
  request.set_key(key_prefix_ + prefix);
  request.set_range_end(prefix_end(request.key()));
  const auto response = client_->range(request);
  if (!response.ok()) return response.status();
  RangeResult result{{}, from_etcd(response->header().revision())};
  result.kvs.reserve(static_cast<size_t>(response->kvs_size()));
  for (const mvccpb::KeyValue& kv : response->kvs()) result.kvs.push_back(key_value(kv, key_prefix_.size()));
  return result;
}

absl::StatusOr<TransactionResult> EtcdStore::transact(const Transaction& transaction) {
  if (auto status = check_transaction(transaction); !status.ok()) return status;
  const uint64_t leader = leader_revision_.load();
  etcdserverpb::TxnRequest request = to_etcd(transaction, key_prefix_);
  if (leader != 0) request = only_while_leading(std::move(request), client_->address().leader_key(), leader);
  const auto response = client_->transact(request);
  if (!response.ok()) return response.status();
  const uint64_t revision = from_etcd(response->header().revision());
  if (leader == 0) return TransactionResult{response->succeeded(), revision};
  if (!response->succeeded()) return deposed(*response);
  if (response->responses_size() != 1) return absl::UnavailableError("etcd answered a transaction with something else");
  return TransactionResult{response->responses(0).response_txn().succeeded(), revision};
}

absl::StatusOr<uint64_t> EtcdStore::newest_revision() {
  const auto none = get("");
  if (!none.ok()) return none.status();
  return none->revision;
}

absl::StatusOr<std::unique_ptr<Watch>> EtcdStore::watch(const std::string& prefix, uint64_t from_revision) {
  const std::string range_start = key_prefix_ + prefix;
  uint64_t first = from_revision;
  if (first == 0) {
    const auto newest = newest_revision();
    if (!newest.ok()) return newest.status();
    first = *newest + 1;
  } else if (first > 1) {
    // A stream would say it only later.
    etcdserverpb::RangeRequest request;
    request.set_key(range_start);
    request.set_count_only(true);
    request.set_revision(to_etcd(first - 1));
    const auto there = client_->range(request);
    if (is_compacted(there.status())) return compacted_error(first);
    if (!there.ok() && there.status().code() != absl::StatusCode::kOutOfRange) return there.status();
  }
  return std::make_unique<EtcdWatch>(*client_, range_start, key_prefix_.size(), first);
}

absl::Status EtcdStore::compact(uint64_t revision) {
  const auto newest = newest_revision();
  if (!newest.ok()) return newest.status();
  if (revision > *newest) {
    return absl::OutOfRangeError(
        absl::StrCat("cannot compact metadata to revision ", revision, "; the newest is ", *newest));
  }
  // etcd may forget the deletions at the revision that it compacts to.
  if (revision <= 1) return absl::OkStatus();
  const absl::Status status = client_->compact(to_etcd(revision - 1));
  return is_compacted(status) ? absl::OkStatus() : status;
}

}  // namespace skua::control
