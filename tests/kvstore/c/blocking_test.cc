#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kvstore/c/entry_point.h"
#include "tests/kvstore/c/c_client.h"

namespace skua::c {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Fields = std::vector<std::pair<std::string, std::string>>;

Fields fields_of(skua_bytes row) {
  Fields fields;
  skua_field field;
  while (skua_row_next(&row, &field)) fields.emplace_back(str(field.name), str(field.value));
  EXPECT_EQ(row.length, 0u);
  return fields;
}

TEST(Blocking, ReadsFieldsOfARow) {
  kv::ThreadedCluster cluster(2, 4);
  const ClientPtr client = blocking_client(cluster);
  skua_client* const c = client.get();
  const skua_bytes row = skua_text("row");
  const skua_field three[] = {{skua_text("name"), skua_text("ada")},
                              {skua_text("field"), skua_text("mathematics")},
                              {skua_text("empty"), skua_text("")}};
  EXPECT_EQ(skua_result_code(ResultPtr(skua_patch(c, "t", row, three, 3, true, nullptr)).get()), SKUA_OK);
  const ResultPtr whole(skua_get(c, "t", row, nullptr));
  EXPECT_EQ(fields_of(skua_result_value(whole.get())),
            (Fields{{"name", "ada"}, {"field", "mathematics"}, {"empty", ""}}));

  const skua_bytes names[] = {skua_text("field"), skua_text("none"), skua_text("name")};
  skua_read_options some = SKUA_READ_OPTIONS_INIT;
  some.fields = names;
  some.field_count = 3;
  const ResultPtr chosen(skua_get(c, "t", row, &some));
  EXPECT_EQ(fields_of(skua_result_value(chosen.get())), (Fields{{"name", "ada"}, {"field", "mathematics"}}));
  const auto code = [](skua_result* result) { return skua_result_code(ResultPtr(result).get()); };
  EXPECT_EQ(code(skua_multi_get(c, "t", &row, 1, &some)), SKUA_INVALID_ARGUMENT) << "only GET takes names";
  EXPECT_EQ(code(skua_scan(c, "t", nullptr, &some)), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(code(skua_put(c, "t", skua_text("n"), skua_text("42"), nullptr)), SKUA_OK);
  EXPECT_EQ(code(skua_get(c, "t", skua_text("n"), &some)), SKUA_FAILED_PRECONDITION) << "no row";
  some.size = 40;
  const ResultPtr by_old_header(skua_get(c, "t", row, &some));
  EXPECT_EQ(str(skua_result_value(by_old_header.get())), str(skua_result_value(whole.get())));
  some.size = sizeof some;
  some.field_count = 0;
  const ResultPtr all(skua_get(c, "t", row, &some));
  EXPECT_EQ(str(skua_result_value(all.get())), str(skua_result_value(whole.get())));
  some = SKUA_READ_OPTIONS_INIT;
  some.field_count = 1;
  EXPECT_EQ(code(skua_get(c, "t", row, &some)), SKUA_INVALID_ARGUMENT) << "a count without names";
}

TEST(RowNext, OfWhatIsNoRow_TakesWhatComesBefore) {
  const std::string bytes("\1\0\0\0a\2\0\0\0bcRest", 15);
  skua_bytes row = {bytes.data(), bytes.size()};
  skua_field field = {skua_text(""), skua_text("")};
  EXPECT_TRUE(skua_row_next(&row, &field));
  EXPECT_EQ(str(field.name), "a");
  EXPECT_EQ(str(field.value), "bc");
  EXPECT_FALSE(skua_row_next(&row, &field));
  EXPECT_EQ(row.length, 4u);
  EXPECT_EQ(str(field.name), "a") << "unchanged";
  skua_bytes none = {nullptr, 0};
  EXPECT_FALSE(skua_row_next(&none, &field));
  none.length = 5;
  EXPECT_FALSE(skua_row_next(&none, &field));
  EXPECT_FALSE(skua_row_next(nullptr, &field));
  EXPECT_FALSE(skua_row_next(&row, nullptr));
}

TEST(Blocking, DoesEachOperation) {
  kv::ThreadedCluster cluster(2, 4);
  const ClientPtr client = blocking_client(cluster);
  skua_client* const c = client.get();
  const skua_bytes ada = skua_text("ada");

  skua_write_options if_absent = SKUA_WRITE_OPTIONS_INIT;
  if_absent.if_absent = true;
  if_absent.durability = SKUA_DURABILITY_FLUSH;
  const ResultPtr put(skua_put(c, "t", ada, skua_text("1815"), &if_absent));
  ASSERT_EQ(skua_result_code(put.get()), SKUA_OK) << skua_result_text(put.get());
  EXPECT_GE(skua_result_durability(put.get()), SKUA_DURABILITY_FLUSH);
  const ResultPtr again(skua_put(c, "t", ada, skua_text("1816"), &if_absent));
  EXPECT_EQ(skua_result_code(again.get()), SKUA_ALREADY_EXISTS);
  EXPECT_EQ(skua_result_outcome(again.get()), SKUA_ANSWERED);
  EXPECT_EQ(skua_result_version(again.get()), skua_result_version(put.get()));
  // Other languages have other numbers for yes.
  if_absent.if_absent = 2;
  const ResultPtr third(skua_put(c, "t", ada, skua_text("1817"), &if_absent));
  EXPECT_EQ(skua_result_code(third.get()), SKUA_ALREADY_EXISTS);

  const ResultPtr got(skua_get(c, "t", ada, nullptr));
  EXPECT_EQ(str(skua_result_value(got.get())), "1815");
  EXPECT_EQ(skua_result_version(got.get()), skua_result_version(put.get()));
  EXPECT_EQ(skua_result_ttl_ms(got.get()), -1);
  EXPECT_STREQ(skua_result_text(got.get()), "");
  const ResultPtr missing(skua_get(c, "t", skua_text("bob"), nullptr));
  EXPECT_EQ(skua_result_code(missing.get()), SKUA_NOT_FOUND);
  EXPECT_EQ(skua_result_outcome(missing.get()), SKUA_ANSWERED);

  const ResultPtr added(skua_add(c, "t", skua_text("n"), 42, nullptr));
  EXPECT_EQ(skua_result_number(added.get()), 42);
  EXPECT_EQ(skua_result_code(ResultPtr(skua_append(c, "t", skua_text("n"), skua_text("0"), nullptr)).get()), SKUA_OK);
  EXPECT_EQ(skua_result_code(ResultPtr(skua_expire(c, "t", skua_text("n"), 9 * kSecondNs, nullptr)).get()), SKUA_OK);
  skua_read_options with_ttl = SKUA_READ_OPTIONS_INIT;
  with_ttl.with_ttl = true;
  with_ttl.at_least = skua_result_token(added.get());
  EXPECT_NE(with_ttl.at_least.index, 0u);
  const ResultPtr n(skua_get(c, "t", skua_text("n"), &with_ttl));
  EXPECT_EQ(str(skua_result_value(n.get())), "420");
  EXPECT_EQ(skua_result_ttl_ms(n.get()), 9000);

  const skua_field field = {skua_text("born"), skua_text("1815")};
  const skua_bytes row = skua_text("row");
  EXPECT_EQ(skua_result_code(ResultPtr(skua_patch(c, "t", row, &field, 1, true, nullptr)).get()), SKUA_OK);
  const skua_field changes[] = {{skua_text("born"), skua_no_value()}, {skua_text("name"), skua_text("ada")}};
  EXPECT_EQ(skua_result_code(ResultPtr(skua_patch(c, "t", row, changes, 2, false, nullptr)).get()), SKUA_OK);
  const ResultPtr patched(skua_get(c, "t", row, nullptr));
  EXPECT_THAT(str(skua_result_value(patched.get())), AllOf(HasSubstr("ada"), Not(HasSubstr("born"))));
  const skua_field last = {skua_text("name"), skua_no_value()};
  EXPECT_EQ(skua_result_code(ResultPtr(skua_patch(c, "t", row, &last, 1, false, nullptr)).get()), SKUA_OK);
  EXPECT_EQ(skua_result_code(ResultPtr(skua_get(c, "t", row, nullptr)).get()), SKUA_NOT_FOUND);

  skua_write_options if_version = SKUA_WRITE_OPTIONS_INIT;
  if_version.has_if_version = true;
  if_version.if_version = 1'000'000;
  const ResultPtr other(skua_remove(c, "t", ada, &if_version));
  EXPECT_EQ(skua_result_code(other.get()), SKUA_FAILED_PRECONDITION);
  EXPECT_FALSE(skua_may_have_been_applied(other.get()));
  if_version.if_version = skua_result_version(put.get());
  EXPECT_EQ(skua_result_code(ResultPtr(skua_remove(c, "t", ada, &if_version)).get()), SKUA_OK);
}

TEST(Blocking, ReadsManyKeysAndRows) {
  kv::ThreadedCluster cluster(2, 4);
  const ClientPtr client = blocking_client(cluster);
  for (const char* key : {"a", "b", "c"}) {
    const ResultPtr put(skua_put(client.get(), "t", skua_text(key), skua_text(key), nullptr));
    ASSERT_EQ(skua_result_code(put.get()), SKUA_OK);
  }
  const skua_bytes keys[] = {skua_text("c"), skua_text("x"), skua_text("a")};
  const ResultPtr many(skua_multi_get(client.get(), "t", keys, 3, nullptr));
  EXPECT_EQ(skua_result_code(many.get()), SKUA_OK);
  ASSERT_EQ(skua_result_entry_count(many.get()), 3u);
  skua_entry entry = SKUA_ENTRY_INIT;
  ASSERT_TRUE(skua_result_entry(many.get(), 0, &entry));
  EXPECT_EQ(str(entry.value), "c");
  EXPECT_NE(entry.version, 0u);
  ASSERT_TRUE(skua_result_entry(many.get(), 1, &entry));
  EXPECT_EQ(entry.code, SKUA_NOT_FOUND);
  EXPECT_FALSE(skua_result_entry(many.get(), 3, &entry));

  skua_scan_range range = SKUA_SCAN_RANGE_INIT;
  range.limit = 2;
  const ResultPtr rows(skua_scan(client.get(), "t", &range, nullptr));
  ASSERT_EQ(skua_result_entry_count(rows.get()), 2u) << skua_result_text(rows.get());
  ASSERT_TRUE(skua_result_entry(rows.get(), 1, &entry));
  EXPECT_EQ(str(entry.key), "b");
  EXPECT_TRUE(skua_result_has_more(rows.get()));
  range.start = skua_result_next_start(rows.get());
  const ResultPtr rest(skua_scan(client.get(), "t", &range, nullptr));
  ASSERT_EQ(skua_result_entry_count(rest.get()), 1u);
  ASSERT_TRUE(skua_result_entry(rest.get(), 0, &entry));
  EXPECT_EQ(str(entry.value), "c");
  EXPECT_FALSE(skua_result_has_more(rest.get()));
}

TEST(Blocking, RunsBatches) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = blocking_client(cluster);
  const BatchPtr batch(skua_batch_create());
  EXPECT_EQ(skua_batch_put(batch.get(), skua_text("k"), skua_text("1"), nullptr), SKUA_OK);
  EXPECT_EQ(skua_batch_add(batch.get(), skua_text("k"), 4, nullptr), SKUA_OK);
  EXPECT_EQ(skua_batch_append(batch.get(), skua_text("k"), skua_text("0"), nullptr), SKUA_OK);
  EXPECT_EQ(skua_batch_expire(batch.get(), skua_text("k"), kSecondNs * 60, nullptr), SKUA_OK);
  const ResultPtr ran(skua_batch_run(client.get(), "t", batch.get(), nullptr));
  ASSERT_EQ(skua_result_code(ran.get()), SKUA_OK) << skua_result_text(ran.get());
  ASSERT_EQ(skua_result_entry_count(ran.get()), 4u);
  skua_entry entry = SKUA_ENTRY_INIT;
  ASSERT_TRUE(skua_result_entry(ran.get(), 1, &entry));
  EXPECT_EQ(entry.number, 5);
  EXPECT_EQ(str(skua_result_value(ResultPtr(skua_get(client.get(), "t", skua_text("k"), nullptr)).get())), "50");

  skua_batch_clear(batch.get());
  EXPECT_EQ(skua_batch_remove(batch.get(), skua_text("k"), nullptr), SKUA_OK);
  EXPECT_EQ(skua_batch_expire(batch.get(), skua_text("x"), kSecondNs, nullptr), SKUA_OK);
  const ResultPtr none(skua_batch_run(client.get(), "t", batch.get(), nullptr));
  EXPECT_EQ(skua_result_code(none.get()), SKUA_NOT_FOUND);

  // What was refused stays refused, until the batch is cleared.
  skua_batch_clear(batch.get());
  EXPECT_EQ(skua_batch_put(batch.get(), {nullptr, 3}, skua_text("1"), nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_batch_put(batch.get(), skua_text("k"), skua_text("1"), nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_result_code(ResultPtr(skua_batch_run(client.get(), "t", batch.get(), nullptr)).get()),
            SKUA_INVALID_ARGUMENT);
}

TEST(Blocking, ResultsOutliveTheClient) {
  ResultPtr kept;
  {
    kv::ThreadedCluster cluster(1, 1);
    const ClientPtr client = blocking_client(cluster);
    const std::string value(100'000, 'v');
    ASSERT_EQ(skua_result_code(ResultPtr(skua_put(client.get(), "t", skua_text("k"), bytes(value), nullptr)).get()),
              SKUA_OK);
    const ResultPtr got(skua_get(client.get(), "t", skua_text("k"), nullptr));
    kept.reset(skua_result_keep(got.get()));
    EXPECT_EQ(kept.get(), got.get());
  }
  EXPECT_EQ(skua_result_value(kept.get()).length, 100'000u);
}

TEST(Blocking, AChildOfForkIsRefused) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = blocking_client(cluster);
  const auto put = [&] { return skua_put(client.get(), "t", skua_text("k"), skua_text("v"), nullptr); };
  EXPECT_EQ(exit_code_of_child([&] {
              const ResultPtr refused(put());
              return skua_result_code(refused.get()) == SKUA_INVALID_ARGUMENT &&
                     std::string(skua_result_text(refused.get())).find("fork()") != std::string::npos &&
                     skua_client_destroy(client.get()) == SKUA_OK;
            }),
            0);
  EXPECT_EQ(skua_result_code(ResultPtr(put()).get()), SKUA_OK);
}

TEST(Blocking, TakesNoTimeToLiveBelowZero) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = blocking_client(cluster);
  for (const int64_t ttl_ns : {int64_t{-1}, int64_t{-999'999}, int64_t{-1'000'000}, INT64_MIN}) {
    skua_write_options options = SKUA_WRITE_OPTIONS_INIT;
    options.ttl_ns = ttl_ns;
    const ResultPtr put(skua_put(client.get(), "t", skua_text("k"), skua_text("v"), &options));
    EXPECT_EQ(skua_result_code(put.get()), SKUA_INVALID_ARGUMENT) << ttl_ns;
    const ResultPtr expired(skua_expire(client.get(), "t", skua_text("k"), ttl_ns, nullptr));
    EXPECT_EQ(skua_result_code(expired.get()), SKUA_INVALID_ARGUMENT) << ttl_ns;
  }
}

TEST(Blocking, SaysWhyThereIsNoClient) {
  const auto code_and_text = [](auto exception) {
    const auto client =
        kv::Client::create_over([&]() -> absl::StatusOr<std::unique_ptr<kv::AsyncClient>> { throw exception; });
    return client.status();
  };
  const std::system_error no_thread(EAGAIN, std::generic_category(), "thread");
  EXPECT_TRUE(absl::IsResourceExhausted(code_and_text(no_thread)));
  EXPECT_THAT(std::string(code_and_text(no_thread).message()), testing::HasSubstr("thread"));
  EXPECT_TRUE(absl::IsResourceExhausted(code_and_text(std::bad_alloc())));
  const absl::Status here = without_exceptions([&]() -> absl::Status { throw no_thread; });
  EXPECT_TRUE(absl::IsResourceExhausted(here));
  EXPECT_EQ(here.message(), no_thread.what());
}

TEST(Blocking, RefusesWhatMakesNoSense) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = blocking_client(cluster);
  skua_client* const c = client.get();
  const skua_bytes key = skua_text("k");
  const auto refused = [](skua_result* given) {
    const ResultPtr result(given);
    EXPECT_EQ(skua_result_outcome(result.get()), SKUA_NOT_DONE);
    EXPECT_EQ(skua_result_code(result.get()), SKUA_INVALID_ARGUMENT);
    return std::string(skua_result_text(result.get()));
  };
  EXPECT_EQ(refused(skua_get(nullptr, "t", key, nullptr)), "client must not be NULL");
  EXPECT_EQ(refused(skua_get(c, nullptr, key, nullptr)), "table must not be NULL");
  EXPECT_EQ(refused(skua_put(c, "t", {nullptr, 7}, key, nullptr)), "key has 7 bytes, but its data is NULL");
  EXPECT_EQ(refused(skua_put(c, "t", key, {nullptr, 7}, nullptr)), "value has 7 bytes, but its data is NULL");
  EXPECT_NE(refused(skua_put(c, "t", skua_text(""), key, nullptr)), "");
  EXPECT_NE(refused(skua_multi_get(c, "t", nullptr, 0, nullptr)), "");
  EXPECT_EQ(refused(skua_multi_get(c, "t", nullptr, 2, nullptr)), "keys must not be NULL");
  EXPECT_EQ(refused(skua_patch(c, "t", key, nullptr, 2, false, nullptr)), "fields must not be NULL");
  EXPECT_EQ(refused(skua_batch_run(c, "t", nullptr, nullptr)), "batch must not be NULL");
  skua_read_options options = SKUA_READ_OPTIONS_INIT;
  options.size = 3;
  EXPECT_NE(refused(skua_get(c, "t", key, &options)).find("skua_read_options.size is 3"), std::string::npos);
  skua_write_options write = SKUA_WRITE_OPTIONS_INIT;
  write.durability = 9;
  EXPECT_NE(refused(skua_put(c, "t", key, key, &write)).find("durability"), std::string::npos);
  // A polled client's calls.
  skua_error error = SKUA_ERROR_INIT;
  EXPECT_EQ(skua_async_get(
                c, "t", key, nullptr, [](void*, const skua_result*) {}, nullptr, &error),
            SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, SKUA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.text).find("skua_client_create_polled"), std::string::npos);
  EXPECT_EQ(skua_poll(c, 0, nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_EQ(skua_wait_fd(c), -1);
  EXPECT_FALSE(skua_post(
      c, [](void*) {}, nullptr));
}

TEST(Blocking, StructsOfOtherVersions) {
  kv::ThreadedCluster cluster(1, 1);
  const ClientPtr client = blocking_client(cluster);
  struct Newer {
    skua_read_options known;
    uint64_t unknown;
  } newer = {SKUA_READ_OPTIONS_INIT, 0};
  newer.known.size = sizeof(newer);
  const skua_bytes key = skua_text("k");
  EXPECT_EQ(skua_result_code(ResultPtr(skua_get(client.get(), "t", key, &newer.known)).get()), SKUA_NOT_FOUND);
  newer.unknown = 1;
  const ResultPtr refused(skua_get(client.get(), "t", key, &newer.known));
  EXPECT_EQ(skua_result_code(refused.get()), SKUA_UNIMPLEMENTED);
}

TEST(Blocking, IsSharedByThreads) {
  kv::ThreadedCluster cluster(2, 4);
  const ClientPtr client = blocking_client(cluster);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        const ResultPtr added(skua_add(client.get(), "t", skua_text("sum"), 1, nullptr));
        EXPECT_EQ(skua_result_code(added.get()), SKUA_OK) << skua_result_text(added.get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(str(skua_result_value(ResultPtr(skua_get(client.get(), "t", skua_text("sum"), nullptr)).get())), "100");
}

TEST(Results, NullIsOne) {
  EXPECT_EQ(skua_result_code(nullptr), SKUA_INVALID_ARGUMENT);
  EXPECT_STREQ(skua_result_text(nullptr), "the result is NULL");
  EXPECT_EQ(skua_result_value(nullptr).length, 0u);
  EXPECT_EQ(skua_result_entry_count(nullptr), 0u);
  skua_entry entry = SKUA_ENTRY_INIT;
  EXPECT_FALSE(skua_result_entry(nullptr, 0, &entry));
  EXPECT_EQ(skua_result_keep(nullptr), nullptr);
  skua_result_release(nullptr);
}

TEST(Structs, HaveTheSizesThatProgramsWereCompiledWith) {
  EXPECT_EQ(sizeof(skua_read_options), 56u);
  EXPECT_EQ(offsetof(skua_read_options, fields), 40u) << "the size in the first version";
  EXPECT_EQ(sizeof(skua_write_options), 40u);
  EXPECT_EQ(sizeof(skua_scan_range), 40u);
  EXPECT_EQ(sizeof(skua_error), 512u);
  EXPECT_EQ(sizeof(skua_entry), 88u);
  EXPECT_EQ(offsetof(skua_write_options, if_version), 16u);
}

}  // namespace
}  // namespace skua::c
