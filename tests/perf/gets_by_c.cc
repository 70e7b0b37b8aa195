// GETs by callbacks of skua.h, 32 at a time, as gets_by_cpp.cc makes them by the C++ AsyncClient. Links libskua.so.1.
//   gets_by_c CONTROL_ADDRESS TABLE GETS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "include/skua/skua.h"

namespace {

struct Gets {
  skua_client* client;
  const char* table;
  std::vector<std::string> keys;
  uint64_t left;
  uint64_t in_flight;
  uint64_t bytes;
};

void begin(Gets& gets);

void end(void* context, const skua_result* result) {
  Gets& gets = *static_cast<Gets*>(context);
  if (skua_result_code(result) != SKUA_OK) std::abort();
  gets.bytes += skua_result_value(result).length;
  --gets.in_flight;
  begin(gets);
}

void begin(Gets& gets) {
  if (gets.left == 0) return;
  --gets.left;
  ++gets.in_flight;
  const std::string& key = gets.keys[gets.left % gets.keys.size()];
  if (skua_async_get(gets.client, gets.table, {key.data(), key.size()}, nullptr, end, &gets, nullptr) != SKUA_OK)
    std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  skua_options* options = skua_options_create();
  skua_options_set(options, "control-address", argv[1], nullptr);
  skua_client* client = skua_client_create_polled(options, nullptr);
  skua_options_destroy(options);
  if (client == nullptr) return 1;
  Gets gets = {client, argv[2], {}, std::strtoull(argv[3], nullptr, 10), 0, 0};
  for (int i = 0; i < 1000; ++i) gets.keys.push_back("key" + std::to_string(i));
  for (int i = 0; i < 32; ++i) begin(gets);
  while (gets.in_flight > 0) {
    if (skua_poll(client, 100'000'000, nullptr) != SKUA_OK) return 1;
  }
  std::printf("%llu bytes\n", static_cast<unsigned long long>(gets.bytes));
  skua_client_destroy(client);
}
