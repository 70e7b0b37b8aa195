// A memcached of the test's own.
#ifndef SKUA_TESTS_YCSB_MEMCACHED_SERVER_H_
#define SKUA_TESTS_YCSB_MEMCACHED_SERVER_H_

#include <unistd.h>

#include <string>
#include <vector>

#include "tests/ycsb/store_server.h"

namespace skua::ycsb {

class MemcachedServer : public StoreServer {
 public:
  MemcachedServer() {
    start([](const std::string& port) {
      std::vector<std::string> words = {"memcached", "-l", "127.0.0.1", "-p", port, "-m", "64", "-t", "2"};
      if (geteuid() == 0) words.insert(words.end(), {"-u", "nobody"});  // it refuses to be root
      return words;
    });
  }
  MemcachedServer(const MemcachedServer&) = delete;
  MemcachedServer& operator=(const MemcachedServer&) = delete;
  ~MemcachedServer() { stop(SIGKILL); }  // it takes a second over SIGTERM

  [[nodiscard]] static bool installed() { return on_path("memcached"); }
};

}  // namespace skua::ycsb

#endif  // SKUA_TESTS_YCSB_MEMCACHED_SERVER_H_
