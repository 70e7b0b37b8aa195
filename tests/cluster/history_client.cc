// history_client: reads and writes a few keys all the time, sees that every read is linearizable, and knows the longest
// that an operation had to wait.
//
//   history_client --control HOST:PORT --table T [--keys N] [--readers N] [--pause-us N]
//
// A line "take" on stdin is answered by one line on stdout: what was done since the last one,
//
//   puts=.. gets=.. unknown=.. longest_put_us=.. longest_get_us=..       or "broken: .."
//
// and "quit" ends it.
//
// Each key is a register with one writer, which writes 1, 2, 3, .. one after the other, while several readers read it.
// For such a history, linearizable means for each read, with the value it returned:
//
//    the newest that was acknowledged, or read by anybody, before the read began  <=  value  <=  the newest put begun before its end
//
// (Gibbons and Korach, "Testing shared memories", 1997: with the order of the writes known, that is all.) A put whose
// outcome stays unknown may happen later, behind newer ones: its register is left alone from then on and a new one is
// begun.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/async_client.h"

namespace skua::kv {
namespace {

using SteadyTime = std::chrono::steady_clock;

struct Arguments {
  std::string control;
  std::string table;
  size_t keys = 4;
  size_t readers = 2;
  std::chrono::microseconds pause{1000};  // between an answer and the next operation, at least
};

struct Register {
  std::string key;
  uint64_t begun = 0;
  uint64_t known = 0;  // acknowledged, or read
  bool given_up = false;
};

class HistoryClient {
 public:
  HistoryClient(const Arguments& arguments, AsyncClient& client) : arguments_(arguments), client_(client) {
    for (size_t i = 0; i < arguments.keys; ++i) start(i);
  }

  void run() {
    if (const auto now = SteadyTime::now(); now >= next_round_) {
      next_round_ = now + arguments_.pause;
      std::vector<std::function<void()>> due;
      due.swap(next_);
      for (const auto& operation : due) operation();
    }
    client_.poll(std::chrono::duration_cast<std::chrono::nanoseconds>(arguments_.pause));
  }

  void stop() { stopping_ = true; }
  [[nodiscard]] bool stopped() const { return stopping_; }

  [[nodiscard]] std::string take() {
    if (!broken_.empty()) return absl::StrCat("broken: ", broken_);
    const Figures figures = std::exchange(figures_, {});
    return absl::StrCat("puts=", figures.puts, " gets=", figures.gets, " unknown=", figures.unknown,
                        " longest_put_us=", figures.longest_put_us, " longest_get_us=", figures.longest_get_us);
  }

 private:
  struct Figures {
    uint64_t puts = 0;
    uint64_t gets = 0;
    uint64_t unknown = 0;
    int64_t longest_put_us = 0;
    int64_t longest_get_us = 0;
  };

  /// A new register, with its writer and readers.
  void start(size_t number) {
    auto made = std::make_shared<Register>();
    made->key = absl::StrCat("register", number, "-", ++generations_);
    put(number, made);
    for (size_t i = 0; i < arguments_.readers; ++i) get(made);
  }

  void put(size_t number, const std::shared_ptr<Register>& one) {
    if (stopping_) return;
    const uint64_t value = ++one->begun;
    const auto begun = SteadyTime::now();
    submitted(client_.put(arguments_.table, one->key, absl::StrCat(value), {}, [=, this](const WriteResult& result) {
      figures_.longest_put_us = std::max(figures_.longest_put_us, micros_since(begun));
      if (!result.status.ok()) {
        ++figures_.unknown;
        one->given_up = true;
        return start(number);
      }
      ++figures_.puts;
      one->known = std::max(one->known, value);
      next_.emplace_back([=, this] { put(number, one); });
    }));
  }

  void get(const std::shared_ptr<Register>& one) {
    if (stopping_ || one->given_up) return;
    const uint64_t at_least = one->known;
    const auto begun = SteadyTime::now();
    submitted(client_.get(arguments_.table, one->key, {}, [=, this](const GetResult& result) {
      figures_.longest_get_us = std::max(figures_.longest_get_us, micros_since(begun));
      if (result.status.ok() || absl::IsNotFound(result.status)) {
        const uint64_t value = result.status.ok() ? std::strtoull(result.value.str().c_str(), nullptr, 10) : 0;
        ++figures_.gets;
        if (value < at_least || value > one->begun) {
          broken(absl::StrCat("a read of ", one->key, " returned ", value, ", but ", at_least, " was known before and ",
                              one->begun, " is the last that was begun"));
        }
        one->known = std::max(one->known, value);
      } else {
        ++figures_.unknown;
      }
      next_.emplace_back([=, this] { get(one); });
    }));
  }

  static int64_t micros_since(SteadyTime::time_point begun) {
    return std::chrono::duration_cast<std::chrono::microseconds>(SteadyTime::now() - begun).count();
  }

  void submitted(const absl::Status& status) {
    if (!status.ok()) broken(absl::StrCat("not submitted: ", status.ToString()));
  }

  void broken(std::string why) {
    if (broken_.empty()) broken_ = std::move(why);
  }

  const Arguments arguments_;
  AsyncClient& client_;
  Figures figures_;
  std::vector<std::function<void()>> next_;  // operations of the next round
  SteadyTime::time_point next_round_{};
  uint64_t generations_ = 0;
  bool stopping_ = false;
  std::string broken_;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    const size_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--control") {
      out.control = value;
    } else if (name == "--table") {
      out.table = value;
    } else if (name == "--keys") {
      out.keys = number;
    } else if (name == "--readers") {
      out.readers = number;
    } else if (name == "--pause-us") {
      out.pause = std::chrono::microseconds(number);
    } else {
      return false;
    }
  }
  return !out.control.empty() && !out.table.empty() && argc % 2 == 1;
}

void serve(AsyncClient& client, HistoryClient& registers) {
  std::thread reader([&] {
    char line[64];
    while (std::fgets(line, sizeof line, stdin) != nullptr && std::strcmp(line, "take\n") == 0) {
      const bool posted = client.post([&registers] {
        std::puts(registers.take().c_str());
        std::fflush(stdout);
      });
      if (!posted) break;
    }
    static_cast<void>(client.post([&registers] { registers.stop(); }));
  });
  while (!registers.stopped() || client.in_flight() > 0) registers.run();
  reader.join();
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  skua::kv::Arguments arguments;
  if (!skua::kv::parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: history_client --control HOST:PORT --table NAME [--keys N] [--readers N] [--pause-us N]\n");
    return 2;
  }
  auto client =
      skua::kv::AsyncClient::create({.control_address = arguments.control, .timeout = std::chrono::seconds(20)});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 2;
  }
  skua::kv::HistoryClient registers(arguments, **client);
  skua::kv::serve(**client, registers);
  return 0;
}
