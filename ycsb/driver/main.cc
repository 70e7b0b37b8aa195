// skua-ycsb: the table of bindings, and nothing else.
#include <iostream>
#include <string>
#include <vector>

#include "ycsb/bindings/basic.h"
#include "ycsb/bindings/memcached.h"
#include "ycsb/bindings/rocksdb.h"
#include "ycsb/bindings/skua.h"
#include "ycsb/driver/driver.h"
#ifdef SKUA_YCSB_HAS_REDIS
#include "ycsb/bindings/redis.h"
#endif

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::vector<skua::ycsb::BindingEntry> bindings = {
      skua::ycsb::skua_binding(),      skua::ycsb::basic_binding(),
#ifdef SKUA_YCSB_HAS_REDIS
      skua::ycsb::redis_binding(),
#endif
      skua::ycsb::memcached_binding(), skua::ycsb::rocksdb_binding(),
  };
  return skua::ycsb::drive(arguments, bindings, std::cout, std::cerr);
}
