// skuactl store inspect, verify, dump: their output.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "app/exit.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/key_text.h"
#include "kvstore/ctl/store_commands.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/printable.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

constexpr int kOneLine = -1;  // indent for print_json(): no line breaks

std::string name_of(ShardId id) {
  return absl::StrCat(id.table_id, "-", id.shard);
}

std::string message_of(const absl::Status& status) {
  return std::string(status.message());
}

std::string shard_state(const OfflineShard& shard) {
  if (shard.directory.empty()) return "no database: dropped or lost";
  if (!shard.status.ok()) return message_of(shard.status);
  if (!shard.log_status.ok()) return message_of(shard.log_status);
  return "ok";
}

struct FileTotals {
  size_t tables = 0;
  size_t blobs = 0;
  uint64_t bytes = 0;
};

FileTotals files_of(const OfflineShard& shard) {
  FileTotals totals;
  if (shard.db == nullptr) return totals;
  for (const StoredFile& file : shard.db->files()) {
    ++(file.level == StoredFile::kBlobLevel ? totals.blobs : totals.tables);
    totals.bytes += file.bytes;
  }
  return totals;
}

// --- inspect

/// Counting stops at either limit, so that inspecting a large store is quick.
constexpr uint64_t kKeysCountedMax = 100'000;
constexpr uint64_t kBytesCountedMax = uint64_t{64} << 20;

struct KeyCount {
  uint64_t keys = 0;
  bool complete = false;
};

/// The number of keys that each sound shard would serve, from its database and the log. Shards that were not reached
/// before a limit are missing.
std::map<ShardId, KeyCount> count_keys(const OfflineStore& store, uint64_t now_ms) {
  std::map<ShardId, KeyCount> counts;
  for (const OfflineShard& shard : store.shards()) {
    if (shard.is_sound()) counts[shard.id].complete = true;
  }
  uint64_t keys = 0;
  uint64_t bytes = 0;
  std::optional<ShardId> ended_in;
  const auto count = [&](ShardId id, const ScanRow& row) {
    bytes += row.key.size() + row.value.size();
    if (++keys > kKeysCountedMax || bytes > kBytesCountedMax) {
      ended_in = id;
      return false;
    }
    ++counts[id].keys;
    return true;
  };
  const auto refused = [&](ShardId id, const absl::Status&) { counts.erase(id); };
  if (!store.dump({.now_ms = now_ms}, count, refused).ok()) return {};
  if (!ended_in) return counts;
  counts[*ended_in].complete = false;
  counts.erase(counts.upper_bound(*ended_in), counts.end());
  return counts;
}

std::string text_of(const std::map<ShardId, KeyCount>& counts, ShardId id) {
  const auto found = counts.find(id);
  if (found == counts.end()) return "-";
  return absl::StrCat(with_commas(found->second.keys), found->second.complete ? "" : "+");
}

nlohmann::json log_json(const OfflineLog& log) {
  nlohmann::json out = {{"worker", log.worker}, {"directory", log.directory}, {"error", message_of(log.status)}};
  if (log.recovery == nullptr) return out;
  out["segments"] = json_list(log.recovery->segments(), [](const LogSegmentInfo& segment) -> nlohmann::json {
    return {{"file", segment.path},      {"sequence", segment.sequence},
            {"bytes", segment.bytes},    {"used_bytes", segment.used_bytes},
            {"groups", segment.groups},  {"records", segment.records},
            {"damaged", segment.damaged}};
  });
  out["damage"] = json_list(log.recovery->damages(), [](const LogDamage& damage) -> nlohmann::json {
    return {{"file", damage.path},
            {"offset", damage.offset},
            {"first_group", damage.first_group},
            {"last_group", damage.last_group}};
  });
  const LogTail& tail = log.recovery->tail();
  out["tail"] = {{"closed", tail.closed},
                 {"torn", tail.torn},
                 {"file", tail.path},
                 {"offset", tail.offset},
                 {"groups_cut", tail.groups_cut}};
  return out;
}

nlohmann::json shard_json(const OfflineShard& shard, const std::map<ShardId, KeyCount>& counts) {
  const FileTotals files = files_of(shard);
  nlohmann::json out = {{"table", shard.id.table_id},
                        {"shard", shard.id.shard},
                        {"directory", shard.directory},
                        {"state", shard_state(shard)},
                        {"applied_index", shard.applied_index()},
                        {"log_last_index", shard.log_last_index},
                        {"unapplied", shard.unapplied()},
                        {"table_files", files.tables},
                        {"blob_files", files.blobs},
                        {"bytes", files.bytes}};
  if (shard.log != nullptr) out["log"] = shard.log->worker;
  if (shard.db != nullptr) out["format"] = shard.db->format();
  if (const auto found = counts.find(shard.id); found != counts.end()) {
    out["keys"] = found->second.keys;
    out["keys_complete"] = found->second.complete;
  }
  return out;
}

void inspect_json(const OpenedStore& opened) {
  const std::map<ShardId, KeyCount> counts = count_keys(*opened.store, opened.now_ms);
  const auto with_counts = [&](const OfflineShard& shard) { return shard_json(shard, counts); };
  const nlohmann::json out = {{"directory", opened.directory},
                              {"cluster_id", opened.identity.cluster_id},
                              {"node_uuid", opened.identity.node_uuid},
                              {"format_version", opened.identity.format_version},
                              {"logs", json_list(opened.store->logs(), log_json)},
                              {"shards", json_list(opened.store->shards(), with_counts)}};
  print_json(out);
}

void print_log(const OfflineLog& log) {
  if (log.recovery == nullptr) {
    absl::PrintF("log %d: %s\n", log.worker, message_of(log.status));
    return;
  }
  const std::vector<LogSegmentInfo> segments = log.recovery->segments();
  const auto total = [&](uint64_t LogSegmentInfo::*count) {
    uint64_t sum = 0;
    for (const LogSegmentInfo& segment : segments) sum += segment.*count;
    return sum;
  };
  absl::PrintF("log %d: %s, %s of %s bytes used, %s, %s\n", log.worker, counted(segments.size(), "segment"),
               with_commas(total(&LogSegmentInfo::used_bytes)), with_commas(total(&LogSegmentInfo::bytes)),
               counted(total(&LogSegmentInfo::groups), "group"), counted(total(&LogSegmentInfo::records), "record"));
  const LogTail& tail = log.recovery->tail();
  if (tail.closed) {
    absl::PrintF("  closed in order\n");
  } else if (!tail.path.empty()) {
    absl::PrintF("  %s at %s offset %d\n", tail.torn ? "ends torn, as a crash does," : "not closed; ends", tail.path,
                 tail.offset);
  }
  for (const LogDamage& damage : log.recovery->damages()) {
    absl::PrintF("  DAMAGED at %s offset %d: groups %d to %d\n", damage.path, damage.offset, damage.first_group,
                 damage.last_group);
  }
}

}  // namespace

int inspect_store(const Globals& globals, const OpenedStore& opened) {
  if (globals.json) {
    inspect_json(opened);
    return app::kExitOk;
  }
  absl::PrintF("node %s of cluster %s, format %d, %s\n\n", opened.identity.node_uuid,
               opened.identity.cluster_id.empty() ? "(none yet)" : opened.identity.cluster_id,
               opened.identity.format_version, counted(opened.store->logs().size(), "worker log"));
  for (const OfflineLog& log : opened.store->logs()) print_log(log);
  const std::map<ShardId, KeyCount> counts = count_keys(*opened.store, opened.now_ms);
  TableRows rows = {{"SHARD", "APPLIED", "LOG", "LAST IN LOG", "TO REPLAY", "KEYS", "BYTES", "FILES", "STATE"}};
  for (const OfflineShard& shard : opened.store->shards()) {
    const FileTotals files = files_of(shard);
    rows.push_back({name_of(shard.id), absl::StrCat(shard.applied_index()),
                    shard.log == nullptr ? "-" : absl::StrCat(shard.log->worker), absl::StrCat(shard.log_last_index),
                    absl::StrCat(shard.unapplied()), text_of(counts, shard.id), absl::StrCat(files.bytes),
                    absl::StrCat(files.tables + files.blobs), shard_state(shard)});
  }
  absl::PrintF("\n%s", table(rows));
  return app::kExitOk;
}

int verify_store(const Globals& globals, const OpenedStore& opened) {
  bool sound = true;
  nlohmann::json findings = nlohmann::json::array();
  opened.store->verify([&](const OfflineStore::Finding& finding) {
    const bool ok = finding.status.ok();
    sound &= ok;
    const std::string detail = ok ? finding.detail : message_of(finding.status);
    if (globals.json) {
      findings.push_back({{"subject", finding.subject},
                          {"verdict", ok ? "ok" : "FAIL"},
                          {"detail", detail},
                          {"file", finding.file},
                          {"offset", finding.offset ? nlohmann::json(*finding.offset) : nlohmann::json()},
                          {"remedy", finding.remedy}});
      return;
    }
    absl::PrintF("%-4s  %-12s %s\n", ok ? "ok" : "FAIL", finding.subject, detail);
    if (ok) return;
    if (!finding.file.empty()) {
      absl::PrintF("%19s%s%s\n", "", finding.file, finding.offset ? absl::StrCat(" offset ", *finding.offset) : "");
    }
    absl::PrintF("%19s-> %s\n", "", finding.remedy);
  });
  if (globals.json) print_json({{"ok", sound}, {"findings", findings}});
  return sound ? app::kExitOk : app::kExitFailure;
}

int dump_store(const Globals& globals, const OpenedStore& opened, const DumpArguments& arguments) {
  uint64_t rows = 0;
  bool complete = true;
  const auto show = [&](ShardId id, const ScanRow& row) {
    if (arguments.limit > 0 && rows == arguments.limit) {
      const bool of_one_shard = arguments.selection.table_id && arguments.selection.shard;
      print_notice(absl::StrCat("more rows follow; go on with --table ", id.table_id, " --shard ", id.shard, " ",
                                start_option(globals, row.key),
                                of_one_shard ? "" : ", and then with the shards behind this one"));
      return false;
    }
    ++rows;
    if (globals.json) {
      nlohmann::json out = {{"table", id.table_id}, {"shard", id.shard}, {"version", row.version}};
      set_text(out, "key", "key_encoding", row.key);
      if (arguments.values) set_text(out, "value", "encoding", as_string_view(row.value));
      if (row.mark.tag != 0) out["tag"] = row.mark.tag;
      if (row.mark.row) out["row"] = true;
      print_json(out, kOneLine);
    } else {
      absl::PrintF("%s\t%d\t%s%s%s\n", name_of(id), row.version, key_text(row.key), arguments.values ? "\t" : "",
                   arguments.values ? printable(as_string_view(row.value)) : "");
    }
    return true;
  };
  const auto refused = [&](ShardId id, const absl::Status& why) {
    complete = false;
    const char* what = "is left out (--salvage shows what its database holds)";
    if (absl::IsNotFound(why)) {
      what = "is left out";
    } else if (arguments.selection.salvage) {
      what = "is not whole";
    }
    absl::FPrintF(stderr, "%s: shard %s %s: %s\n", kProgram, name_of(id), what, message_of(why));
  };
  for (const OfflineLog& log : opened.store->logs()) {
    if (log.status.ok()) continue;
    complete = false;
    absl::FPrintF(stderr, "%s: log %d cannot be read, so rows may be missing: %s\n", kProgram, log.worker,
                  message_of(log.status));
  }
  const uint64_t uncommitted = must(opened.store->dump(arguments.selection, show, refused));
  if (uncommitted > 0) {
    print_notice(absl::StrCat(uncommitted, " entries of shards with replicas are not known to be committed",
                              arguments.selection.uncommitted ? "" : " and left out; --uncommitted shows them"));
  }
  return complete ? app::kExitOk : app::kExitFailure;
}

}  // namespace skua::kv::ctl
