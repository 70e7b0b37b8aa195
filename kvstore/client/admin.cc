#include "kvstore/client/admin.h"

#include <algorithm>
#include <utility>

#include "control/client/admin_client.h"

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
          .settled_shard_count = summary.settled_shard_count};
}

}  // namespace

struct Admin::Impl {
  control::AdminClient client;
};

Admin::Admin(const std::string& control_address, std::chrono::milliseconds timeout)
    : impl_(new Impl{control::AdminClient(control_address, timeout.count() * kMillisecond)}) {}
Admin::~Admin() = default;

absl::StatusOr<CreatedTable> Admin::create_table(const NewTable& table) {
  control::CreateTableOptions options;
  options.name = table.name;
  options.shard_count = table.shard_count;
  options.if_not_exists = table.if_not_exists;
  options.replicas = table.replicas;
  options.min_insync = table.min_insync;
  options.read_anywhere = table.read_anywhere;
  options.wait_ready_ms = static_cast<uint32_t>(std::clamp<int64_t>(table.wait_ready.count(), 0, 3'600'000));
  absl::StatusOr<control::CreatedTable> made = impl_->client.create_table(options);
  if (!made.ok()) return made.status();
  return CreatedTable{info_of(made->table), made->created, made->ready, std::move(made->waiting_for)};
}

absl::StatusOr<std::vector<TableInfo>> Admin::list_tables() {
  absl::StatusOr<std::vector<control::TableSummary>> found = impl_->client.list_tables();
  if (!found.ok()) return found.status();
  std::vector<TableInfo> tables;
  for (const control::TableSummary& summary : *found) tables.push_back(info_of(summary));
  return tables;
}

absl::StatusOr<std::vector<std::string>> Admin::troubles() {
  absl::StatusOr<control::ClusterStatus> status = impl_->client.status();
  if (!status.ok()) return status.status();
  return std::move(status->troubles);
}

absl::Status Admin::drop_table(std::string_view name) {
  return impl_->client.drop_table(std::string(name)).status();
}

}  // namespace skua::kv
