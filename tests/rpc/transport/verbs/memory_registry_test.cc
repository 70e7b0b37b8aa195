#include "rpc/transport/verbs/memory_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::rpc::verbs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FakeRegistrar : public Registrar {
 public:
  absl::StatusOr<Registration> add(MutableByteSpan region) override {
    if (refuse) return absl::ResourceExhaustedError("no more");
    const uint32_t key = ++next_key;
    bytes += region.size();
    alive.insert(key);
    return Registration{nullptr, key};
  }
  void remove(const Registration& registration) override { EXPECT_EQ(alive.erase(registration.key), 1u); }

  bool refuse = false;
  uint32_t next_key = 100;
  size_t bytes = 0;
  std::set<uint32_t> alive;
};

class MemoryRegistryTest : public testing::Test {
 protected:
  MutableByteSpan span(size_t offset, size_t bytes) { return MutableByteSpan(memory_).subspan(offset, bytes); }

  std::vector<std::byte> memory_ = std::vector<std::byte>(10'000);
  FakeRegistrar registrar_;
};

TEST_F(MemoryRegistryTest, Acquire_RegistersOnceForAll) {
  MemoryRegistry registry(registrar_);
  const uint32_t key = registry.acquire(span(0, 1000)).value().key;
  EXPECT_EQ(registry.acquire(span(0, 1000)).value().key, key);
  EXPECT_EQ(registry.registered_bytes(), 1000u);
  registry.release(span(0, 1000));
  EXPECT_EQ(registrar_.alive.size(), 1u);
  registry.release(span(0, 1000));
  EXPECT_TRUE(registrar_.alive.empty());
  EXPECT_EQ(registry.registered_bytes(), 0u);
}

TEST_F(MemoryRegistryTest, Acquire_APartIsARegionOfItsOwn) {
  MemoryRegistry registry(registrar_);
  const uint32_t whole = registry.acquire(span(0, 1000)).value().key;
  const uint32_t part = registry.acquire(span(0, 500)).value().key;
  EXPECT_NE(whole, part);
  registry.release(span(0, 1000));
  EXPECT_EQ(registrar_.alive, std::set<uint32_t>{part});
  registry.release(span(0, 500));
}

TEST_F(MemoryRegistryTest, Acquire_AFailureLeavesNothing) {
  MemoryRegistry registry(registrar_);
  registrar_.refuse = true;
  EXPECT_EQ(registry.acquire(span(0, 1000)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(registry.registered_bytes(), 0u);
  registrar_.refuse = false;
  EXPECT_TRUE(registry.acquire(span(0, 1000)).ok());
}

TEST_F(MemoryRegistryTest, Destructor_GivesEverythingBack) {
  {
    MemoryRegistry registry(registrar_);
    ASSERT_TRUE(registry.acquire(span(0, 10)).ok());
    ASSERT_TRUE(registry.acquire(span(10, 10)).ok());
  }
  EXPECT_TRUE(registrar_.alive.empty());
}

TEST_F(MemoryRegistryTest, Release_OfUnknownMemoryIsTheProgramsMistake) {
  MemoryRegistry registry(registrar_);
  EXPECT_DEATH(registry.release(span(0, 10)), "not registered");
}

TEST_F(MemoryRegistryTest, Table_FindsOnlyWhatLiesWhollyInside) {
  RegionTable table;
  table.add(span(1000, 1000), {nullptr, 1});
  table.add(span(3000, 1000), {nullptr, 2});
  EXPECT_EQ(table.find(span(1000, 1000))->key, 1u);
  EXPECT_EQ(table.find(span(3999, 1))->key, 2u);
  EXPECT_EQ(table.find(span(999, 2)), nullptr);
  EXPECT_EQ(table.find(span(1999, 2)), nullptr);
  EXPECT_EQ(table.find(span(2500, 1)), nullptr);
  EXPECT_TRUE(table.remove(span(1000, 1000)));
  EXPECT_FALSE(table.remove(span(1000, 1000)));
  EXPECT_EQ(table.find(span(1500, 1)), nullptr);
}

TEST_F(MemoryRegistryTest, Table_AgreesWithALinearSearch) {
  Rng rng(3);
  RegionTable table;
  std::vector<MutableByteSpan> regions;
  for (int turn = 0; turn < 2000; ++turn) {
    if (regions.size() < 12 && rng.chance(0.3)) {
      const size_t at = rng.below(9000);
      regions.push_back(span(at, 1 + rng.below(1000)));
      table.add(regions.back(), {nullptr, static_cast<uint32_t>(turn)});
    } else if (!regions.empty() && rng.chance(0.2)) {
      const size_t which = rng.below(regions.size());
      ASSERT_TRUE(table.remove(regions[which]));
      regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(which));
    }
    const size_t at = rng.below(9900);
    const MutableByteSpan piece = span(at, 1 + rng.below(100));
    bool expected = false;
    for (const MutableByteSpan& region : regions) {
      expected =
          expected || (piece.data() >= region.data() && piece.data() + piece.size() <= region.data() + region.size());
    }
    const RegionTable::Region* found = table.find(piece);
    ASSERT_EQ(found != nullptr, expected);
    if (found != nullptr) {
      EXPECT_TRUE(piece.data() >= found->bytes.data() &&
                  piece.data() + piece.size() <= found->bytes.data() + found->bytes.size());
    }
  }
}

TEST(RegistrationFailed, NamesTheLimitAndHowToRaiseIt) {
  const absl::Status status = registration_failed("rxe0", 4096, 1024, ENOMEM, 65'536);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("rxe0"));
  EXPECT_THAT(text, HasSubstr("4096 bytes"));
  EXPECT_THAT(text, HasSubstr("65536"));
  EXPECT_THAT(text, HasSubstr("ulimit -l"));
  EXPECT_THAT(std::string(registration_failed("rxe0", 1, 0, ENOMEM, UINT64_MAX).message()), Not(HasSubstr("ulimit")));
  EXPECT_THAT(std::string(registration_failed("rxe0", 1, 0, EFAULT, 65'536).message()), Not(HasSubstr("ulimit")));
}

}  // namespace
}  // namespace skua::rpc::verbs
