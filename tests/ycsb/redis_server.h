// A redis-server of the test's own.
#ifndef SKUA_TESTS_YCSB_REDIS_SERVER_H_
#define SKUA_TESTS_YCSB_REDIS_SERVER_H_

#include <string>
#include <vector>

#include "tests/ycsb/store_server.h"

namespace skua::ycsb {

class RedisServer : public StoreServer {
 public:
  RedisServer() {
    start([](const std::string& port) {
      return std::vector<std::string>{"redis-server", "--port", port,           "--bind", "127.0.0.1",
                                      "--save",       "",       "--appendonly", "no"};
    });
  }

  [[nodiscard]] static bool installed() { return on_path("redis-server"); }
};

}  // namespace skua::ycsb

#endif  // SKUA_TESTS_YCSB_REDIS_SERVER_H_
