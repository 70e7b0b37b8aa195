// Counts the words of its standard input in a table that many programs may count into: an example of coroutines over
// libskua.so.1.
//
//   g++ -std=c++20 examples/cpp/count_words.cc $(pkg-config --cflags --libs skua) -o count_words
//   ./count_words TABLE <TEXT
//
// Each word is an ADD to its counter. Several tasks take words from one queue, so that as many operations are under way at a
// time; all of them run on this thread. SKUA_CONTROL_ADDRESS: where the control plane listens.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <skua/skua_coro.hpp>

namespace {

constexpr int kTasks = 64;

/// What the tasks have in common. Outlives them.
struct Count {
  std::string table;
  std::vector<std::string> words;
  std::map<std::string, std::int64_t> sums;
  skua::Status failure;
};

/// Takes words until there are none.
skua::Task<> count_words(skua::CoroClient client, Count* count) {
  while (!count->words.empty() && count->failure.ok()) {
    const std::string word = std::move(count->words.back());
    count->words.pop_back();
    const skua::Result<skua::Written> added = co_await client.add(count->table, word, 1);
    if (added) {
      count->sums[word] = std::max(count->sums[word], added->number);
    } else {
      count->failure = added.status();
    }
  }
}

skua::Task<> count_all(skua::CoroClient client, Count* count) {
  std::vector<skua::Task<>> tasks;
  tasks.reserve(kTasks);
  for (int i = 0; i < kTasks; ++i) tasks.push_back(count_words(client, count));
  for (skua::Task<>& task : tasks) task.start();
  for (skua::Task<>& task : tasks) co_await task;
}

int fail(const skua::Status& status) {
  std::fprintf(stderr, "count_words: %s: %s\n", skua_code_name(status.code()), status.text().c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: count_words TABLE <TEXT\n");
    return 2;
  }
  const char* address = std::getenv("SKUA_CONTROL_ADDRESS");
  auto client = skua::PolledClient::create({{"control-address", address != nullptr ? address : "127.0.0.1:7400"}});
  if (!client) return fail(client.status());
  Count count;
  count.table = argv[1];
  for (std::string word; std::cin >> word;) count.words.push_back(word);
  skua::run(*client, count_all(*client, &count));
  if (!count.failure.ok()) return fail(count.failure);
  for (const auto& [word, sum] : count.sums) std::printf("%lld %s\n", static_cast<long long>(sum), word.c_str());
  return 0;
}
