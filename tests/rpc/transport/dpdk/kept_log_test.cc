#include "rpc/transport/dpdk/kept_log.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::rpc::dpdk {
namespace {

TEST(KeptLog, GivesWhatWasWrittenSinceTheLastTime) {
  KeptLog log;
  EXPECT_EQ(log.take(), "");
  std::fprintf(log.stream(), "port %d has no link\n", 3);
  EXPECT_EQ(log.take(), "port 3 has no link\n");
  EXPECT_EQ(log.take(), "");
  std::fputs("more\n", log.stream());
  EXPECT_EQ(log.take(), "more\n");
}

TEST(KeptLog, KeepsTheNewestIfNobodyTakesIt) {
  KeptLog log;
  for (int i = 0; i < 100'000; ++i) std::fprintf(log.stream(), "line %d\n", i);
  const std::string kept = log.take();
  EXPECT_LE(kept.size(), KeptLog::kBytesMax);
  EXPECT_GE(kept.size(), KeptLog::kBytesMax / 2);
  EXPECT_TRUE(kept.ends_with("line 99998\nline 99999\n"));
}

}  // namespace
}  // namespace skua::rpc::dpdk
