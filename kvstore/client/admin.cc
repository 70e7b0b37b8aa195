#include "kvstore/client/admin.h"

#include <algorithm>
#include <utility>

#include "control/client/admin_client.h"
#include "control/security/credentials.h"

namespace skua::kv {
namespace {

TableInfo info_of(const control::TableSummary& summary) {
  const control::Table& table = summary.table;
  return {.id = table.id,
          .name = table.name,
          .shard_count = table.shard_count,
          .available_shard_count = summary.available_shard_count,
          .replicas = table.replicas,
          .min_insync = table.min_insync,
          .read_anywhere = table.read_anywhere,
          .hash_tags = table.hash_tags,
          .settled_shard_count = summary.settled_shard_count};
}

}  // namespace

struct Admin::Impl {
  Impl(const std::string& control_address, DurationNs timeout_ns,
       const absl::StatusOr<control::CredentialsPtr>& credentials)
      : usable(credentials.status()), client(control_address, timeout_ns, credentials.ok() ? *credentials : nullptr) {}

  const absl::Status usable;
  control::AdminClient client;
};

Admin::Admin(const std::string& control_address, std::chrono::milliseconds timeout,
             const control::CredentialFiles& credentials)
    : impl_(new Impl(control_address, timeout.count() * kMillisecond, control::Credentials::load(credentials))) {}
Admin::~Admin() = default;

absl::StatusOr<CreatedTable> Admin::create_table(const NewTable& table) {
  if (!impl_->usable.ok()) return impl_->usable;
  const control::CreateTableOptions options{
      .name = table.name,
      .shard_count = table.shard_count,
      .if_not_exists = table.if_not_exists,
      .wait_ready_ms = static_cast<uint32_t>(std::clamp<int64_t>(table.wait_ready.count(), 0, 3'600'000)),
      .replicas = table.replicas,
      .min_insync = table.min_insync,
      .read_anywhere = table.read_anywhere,
      .hash_tags = table.hash_tags};
  absl::StatusOr<control::CreatedTable> made = impl_->client.create_table(options);
  if (!made.ok()) return made.status();
  return CreatedTable{info_of(made->table), made->created, made->ready, std::move(made->waiting_for)};
}

absl::StatusOr<std::vector<TableInfo>> Admin::list_tables() {
  if (!impl_->usable.ok()) return impl_->usable;
  absl::StatusOr<std::vector<control::TableSummary>> found = impl_->client.list_tables();
  if (!found.ok()) return found.status();
  std::vector<TableInfo> tables;
  for (const control::TableSummary& summary : *found) tables.push_back(info_of(summary));
  return tables;
}

absl::StatusOr<std::vector<std::string>> Admin::troubles() {
  if (!impl_->usable.ok()) return impl_->usable;
  absl::StatusOr<control::ClusterStatus> status = impl_->client.status();
  if (!status.ok()) return status.status();
  return std::move(status->troubles);
}

absl::Status Admin::drop_table(std::string_view name) {
  if (!impl_->usable.ok()) return impl_->usable;
  return impl_->client.drop_table(std::string(name)).status();
}

}  // namespace skua::kv
