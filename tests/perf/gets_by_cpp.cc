// GETs by callbacks of the C++ AsyncClient, 32 at a time; gets_by_c.cc does the same by skua.h.
//   gets_by_cpp CONTROL_ADDRESS TABLE GETS
// client_instructions.py counts what each takes.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kvstore/client/async_client.h"

namespace {

class Gets {
 public:
  Gets(skua::kv::AsyncClient& client, const char* table, uint64_t count)
      : client_(client), table_(table), left_(count) {
    for (int i = 0; i < 1000; ++i) keys_.push_back("key" + std::to_string(i));
  }

  void begin() {
    if (left_ == 0) return;
    --left_;
    ++in_flight_;
    const auto status = client_.get(table_, keys_[left_ % keys_.size()], {}, [this](const skua::kv::GetResult& result) {
      if (!result.ok()) std::abort();
      bytes_ += result.value.bytes().size();
      --in_flight_;
      begin();
    });
    if (!status.ok()) std::abort();
  }
  bool is_done() const { return in_flight_ == 0; }
  uint64_t bytes() const { return bytes_; }

 private:
  skua::kv::AsyncClient& client_;
  std::string table_;
  std::vector<std::string> keys_;
  uint64_t left_;
  uint64_t in_flight_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  skua::kv::ClientOptions options;
  options.control_address = argv[1];
  options.spin = std::chrono::nanoseconds(0);
  auto client = skua::kv::AsyncClient::create(options);
  if (!client.ok()) return 1;
  Gets gets(**client, argv[2], std::strtoull(argv[3], nullptr, 10));
  for (int i = 0; i < 32; ++i) gets.begin();
  while (!gets.is_done()) (*client)->poll(std::chrono::milliseconds(100));
  std::printf("%llu bytes\n", static_cast<unsigned long long>(gets.bytes()));
}
