// skuactl store: declarations that store_commands.cc and store_print.cc share.
#ifndef SKUA_KVSTORE_CTL_STORE_COMMANDS_H_
#define SKUA_KVSTORE_CTL_STORE_COMMANDS_H_

#include "app/data_dir.h"
#include "kvstore/ctl/output.h"
#include "kvstore/storage/offline_store.h"

namespace skua::kv::ctl {

/// The data directory of a stopped node, with its store open. store_commands.cc keeps the directory locked while a
/// command uses this.
struct OpenedStore {
  std::string directory;
  app::DataDirIdentity identity;
  uint64_t now_ms = 0;  ///< unix time: keys that have expired by then are not there
  std::unique_ptr<OfflineStore> store;
};

// Each prints its report and returns the exit code.
int inspect_store(const Globals& globals, const OpenedStore& opened);
int verify_store(const Globals& globals, const OpenedStore& opened);

struct DumpArguments {
  OfflineStore::Selection selection;
  bool values = false;
  uint64_t limit = 0;  // 0: all
};
int dump_store(const Globals& globals, const OpenedStore& opened, const DumpArguments& arguments);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_STORE_COMMANDS_H_
