#include "kvstore/codec/request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/codec/batch.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/codec/codec_testing.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr Route kRoute = {0x01020304, 0x05060708, 0x1112131415161718, 0x2122232425262728};
constexpr const char* kRouteHex =
    "04030201"
    "08070605"
    "1817161514131211"
    "2827262524232221";

/// Of a mutation that says nothing in it.
const std::string kEmptyHead(80, '0');

std::string golden(const std::string& rest) {
  return kRouteHex + rest;
}

std::string one_field(std::string_view name, std::string_view value) {
  std::string row;
  append_field(row, {name, as_byte_span(value)});
  return row;
}

/// A valid request of each method, with random contents.
std::vector<std::pair<Recode, std::string>> random_requests(Rng& rng) {
  const Route route = {static_cast<uint32_t>(rng.next()), static_cast<uint32_t>(rng.next()), rng.next(), rng.next()};
  const std::string key = random_text(rng, rng.between(1, rng.chance(0.1) ? kKeyBytesMax : 40));
  const std::string value = random_text(rng, rng.below(300));
  const std::string fields = one_field(random_text(rng, rng.between(1, 20)), value);
  const std::string end = random_text(rng, rng.below(40));
  const std::string token = random_text(rng, rng.below(40));
  const Condition conditions[] = {Condition::none(), Condition::if_version(rng.next()), Condition::if_present(),
                                  Condition::if_absent()};
  std::vector<std::string_view> keys(rng.between(1, 20), key);
  HeadBuffer head;
  std::vector<std::byte> buffer(64 * 1024);

  std::vector<std::pair<Recode, std::string>> all;
  const auto add = [&](Recode recode, ByteSpan encoded_head, ByteSpan body) {
    all.emplace_back(recode, joined(encoded_head, body));
  };
  const uint64_t seq = rng.between(1, UINT64_MAX);
  const RequestId id = rng.chance(0.3) ? RequestId{} : RequestId{rng.between(1, UINT64_MAX), seq, rng.below(seq)};
  const auto durability = static_cast<Durability>(rng.below(4));
  const uint64_t ttl_ms = rng.chance(0.5) ? 0 : rng.below(kTtlMsMax);
  const uint64_t index = rng.chance(0.5) ? 0 : rng.next();
  const ByteSpan body = as_byte_span(value);
  add(recode_get, encode_get({route, key, index, {rng.chance(0.5), rng.chance(0.5), rng.chance(0.3)}}, head).value(),
      {});
  const std::string name = random_text(rng, rng.between(1, rng.chance(0.1) ? kFieldNameBytesMax : 40));
  const std::vector<std::string_view> names(rng.between(1, 20), name);
  std::string encoded_names;
  EXPECT_TRUE(encode_field_names(names, encoded_names).ok());
  GetRequest get_fields{route, key, index, {.ttl = rng.chance(0.5), .mark = rng.chance(0.5), .fields = true}};
  get_fields.fields = StringList(as_byte_span(encoded_names), names.size());
  add(recode_get, encode_get(get_fields, head).value(), as_byte_span(encoded_names));
  const auto add_mutation = [&](Recode recode, const Mutation& mutation) {
    add(recode, encode_mutation_head({route, mutation, id, durability}, head).value(), mutation.value);
  };
  add_mutation(recode_mutation<Method::kPut>, mutations::put(key, body, conditions[rng.below(4)], ttl_ms));
  Mutation marked = mutations::put_keeping_ttl(key, as_byte_span(fields), conditions[rng.below(4)]);
  marked.mark = random_mark(rng);
  add_mutation(recode_mutation<Method::kPut>, marked);
  Mutation row = mutations::patch(key, as_byte_span(fields), rng.chance(0.5), conditions[rng.below(2)]);
  row.mark.row = true;
  add_mutation(recode_mutation<Method::kPatch>, row);
  add_mutation(recode_mutation<Method::kDelete>, mutations::remove(key, conditions[rng.below(3)]));
  add_mutation(recode_mutation<Method::kPatch>,
               mutations::patch(key, as_byte_span(fields), rng.chance(0.5), conditions[rng.below(2)]));
  std::string edit = fields;
  append_field(edit, {.name = "gone", .is_removed = true});
  add_mutation(recode_mutation<Method::kPatch>, mutations::edit(key, as_byte_span(edit), rng.chance(0.5)));
  add_mutation(recode_mutation<Method::kAdd>,
               mutations::add(key, static_cast<int64_t>(rng.next()), conditions[rng.below(4)]));
  add_mutation(recode_mutation<Method::kAppend>, mutations::append(key, body, conditions[rng.below(4)]));
  add_mutation(recode_mutation<Method::kExpire>, mutations::expire(key, ttl_ms, conditions[rng.below(3)]));
  add(recode_multi_get, encode_multi_get(route, keys, buffer, {rng.chance(0.5), rng.chance(0.5)}).value(), {});
  add(recode_scan,
      encode_scan({route, key, end, static_cast<uint32_t>(rng.between(1, kScanRowsMax)),
                   static_cast<uint32_t>(rng.between(1, kScanBytesMax)), token, rng.chance(0.5), rng.chance(0.5)},
                  buffer)
          .value(),
      {});
  return all;
}

TEST(RequestTest, Scan_CountsOrReturnsKeys) {
  std::vector<std::byte> buffer(100);
  ScanRequest request{.route = kRoute, .rows_max = 1, .bytes_max = 1, .count_only = true};
  const std::string bytes(as_string_view(encode_scan(request, buffer).value()));
  EXPECT_EQ(static_cast<uint8_t>(bytes[25]), 16);
  EXPECT_TRUE(decode_scan(as_byte_span(bytes))->count_only);
  for (const char flags : {'\x14', '\x18', '\x20'}) {
    std::string bad = bytes;
    bad[25] = flags;
    EXPECT_FALSE(decode_scan(as_byte_span(bad)).ok());
  }
  request.keys_only = true;
  EXPECT_FALSE(encode_scan(request, buffer).ok());
}

TEST(RequestTest, Mark_GoldenBytes) {
  HeadBuffer head;
  Mutation put = mutations::put("k", {});
  put.mark = {.tag = 0x01020304, .row = true};
  const std::string bytes(as_string_view(encode_mutation_head({kRoute, put}, head).value()));
  EXPECT_EQ(static_cast<uint8_t>(bytes[25]), 64);
  EXPECT_EQ(hex(as_byte_span(bytes).subspan(kRequestHeaderBytes + kMutationHeadBytes)),
            "0403020101000000"
            "6b");
  std::string later = bytes;
  later[kRequestHeaderBytes + kMutationHeadBytes + 4] = 2;
  EXPECT_FALSE(decode_mutation(Method::kPut, as_byte_span(later)).ok()) << "a flag of later builds";
  std::string empty = bytes;
  empty.replace(kRequestHeaderBytes + kMutationHeadBytes, kMarkBytes, kMarkBytes, '\0');
  EXPECT_FALSE(decode_mutation(Method::kPut, as_byte_span(empty)).ok()) << "an empty mark is not encoded";
}

TEST(RequestTest, Get_GoldenBytes) {
  HeadBuffer head;
  EXPECT_EQ(hex(encode_get({kRoute, "key"}, head).value()), golden("02"
                                                                   "00"
                                                                   "0300"
                                                                   "00000000"
                                                                   "6b6579"));
}

TEST(RequestTest, Get_WithTokenAndTimeToLive_GoldenBytes) {
  HeadBuffer head;
  EXPECT_EQ(hex(encode_get({kRoute, "key", 0x3132333435363738, {.ttl = true}}, head).value()), golden("02"
                                                                                                      "03"
                                                                                                      "0300"
                                                                                                      "00000000"
                                                                                                      "3837363534333231"
                                                                                                      "6b6579"));
}

TEST(RequestTest, Get_OfFields_GoldenBytes) {
  const std::vector<std::string_view> names = {"ab", "c"};
  std::string encoded = "left over";
  ASSERT_TRUE(encode_field_names(names, encoded).ok());
  GetRequest request{kRoute, "key", 0, {.mark = true, .fields = true}};
  request.fields = StringList(as_byte_span(encoded), names.size());
  HeadBuffer head;
  const std::string bytes = joined(encode_get(request, head).value(), as_byte_span(encoded));
  EXPECT_EQ(hex(as_byte_span(bytes)), golden("02"
                                             "14"
                                             "0300"
                                             "02000000"
                                             "6b6579"
                                             "02006162"
                                             "010063"));
  const auto decoded = decode_get(as_byte_span(bytes));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  std::vector<std::string_view> read;
  for (const std::string_view name : decoded->fields) read.push_back(name);
  EXPECT_EQ(read, names);
}

TEST(RequestTest, Get_OfFields_Refusals) {
  std::string encoded;
  const std::vector<std::string_view> too_many(kFieldsMax + 1, "f");
  EXPECT_EQ(encode_field_names({}, encoded).message(), "a GET of fields has 0 names; 1 to 1,024 are allowed");
  EXPECT_EQ(encode_field_names(too_many, encoded).message(),
            "a GET of fields has 1,025 names; at most 1,024 are allowed");
  const std::string long_name(kFieldNameBytesMax + 1, 'f');
  for (const std::string_view name : {std::string_view(), std::string_view(long_name)}) {
    EXPECT_FALSE(encode_field_names({&name, 1}, encoded).ok()) << name.size();
  }
  HeadBuffer head;
  EXPECT_FALSE(encode_get({kRoute, "key", 0, {.size_only = true, .fields = true}}, head).ok()) << "fields have no size";

  // What a foreign encoder could send.
  const auto with_flags = [&](uint8_t flags, uint32_t count, std::string_view names) {
    std::string bytes = joined(encode_get({kRoute, "key"}, head).value(), as_byte_span(names));
    bytes[25] = static_cast<char>(flags);
    store_le(reinterpret_cast<std::byte*>(bytes.data()) + 28, count);
    return decode_get(as_byte_span(bytes)).status();
  };
  const std::string name("\1\0f", 3);
  EXPECT_TRUE(with_flags(16, 1, name).ok());
  EXPECT_FALSE(with_flags(16 | 8, 1, name).ok()) << "fields and the size";
  EXPECT_FALSE(with_flags(0, 1, name).ok()) << "names without the flag";
  EXPECT_FALSE(with_flags(16, 0, {}).ok()) << "no name";
  EXPECT_FALSE(with_flags(16, 2, name).ok()) << "a name is missing";
  EXPECT_FALSE(with_flags(16, 1, name + name).ok()) << "a name too many";
  EXPECT_FALSE(with_flags(16, 1, std::string(2, '\0')).ok()) << "a name of 0 bytes";
  std::string many;
  for (size_t i = 0; i <= kFieldsMax; ++i) many += name;
  EXPECT_FALSE(with_flags(16, kFieldsMax + 1, many).ok()) << "too many names";
}

TEST(RequestTest, Put_GoldenBytes) {
  HeadBuffer head;
  const MutationRequest put{
      kRoute,
      mutations::put("key", as_byte_span("value"), Condition::if_version(0x3132333435363738), 0x5152),
      {0x4142434445464748, 9, 7},
      Durability::kFlush};
  EXPECT_EQ(hex(encode_mutation_head(put, head).value()), golden("02"
                                                                 "21"
                                                                 "0300"
                                                                 "05000000"
                                                                 "4847464544434241"
                                                                 "0900000000000000"
                                                                 "0700000000000000"
                                                                 "3837363534333231"
                                                                 "5251000000000000"
                                                                 "6b6579"));
  const MutationRequest absent{kRoute, mutations::put("k", {}, Condition::if_absent())};
  EXPECT_EQ(hex(encode_mutation_head(absent, head).value()), golden("02"
                                                                    "02"
                                                                    "0100"
                                                                    "00000000" +
                                                                    kEmptyHead + "6b"));
}

TEST(RequestTest, Delete_GoldenBytes) {
  HeadBuffer head;
  EXPECT_EQ(hex(encode_mutation_head({kRoute, mutations::remove("key")}, head).value()), golden("02"
                                                                                                "00"
                                                                                                "0300"
                                                                                                "00000000" +
                                                                                                kEmptyHead + "6b6579"));
}

TEST(RequestTest, Patch_GoldenBytes) {
  HeadBuffer head;
  const std::string fields = one_field("f", "v");
  const MutationRequest patch{kRoute, mutations::patch("key", as_byte_span(fields), true)};
  EXPECT_EQ(hex(encode_mutation_head(patch, head).value()), golden("02"
                                                                   "04"
                                                                   "0300"
                                                                   "0a000000" +
                                                                   kEmptyHead + "6b6579"));
}

TEST(RequestTest, Patch_ThatEdits_GoldenBytes) {
  HeadBuffer head;
  std::string edit;
  append_field(edit, {.name = "f", .is_removed = true});
  EXPECT_EQ(hex(encode_mutation_head({kRoute, mutations::edit("key", as_byte_span(edit), true)}, head).value()),
            golden("02"
                   "0c"
                   "0300"
                   "09000000" +
                   kEmptyHead + "6b6579"));
  BatchOpsBuilder batch;
  EXPECT_FALSE(batch.add(mutations::edit("key", as_byte_span(edit), true)).ok()) << "not in a batch";
  Mutation put = mutations::put("key", as_byte_span(edit));
  put.edits_row = true;
  EXPECT_FALSE(check_mutation(put).ok());
  EXPECT_FALSE(check_mutation(mutations::patch("key", as_byte_span(edit), true)).ok()) << "only edits remove fields";
}

TEST(RequestTest, Add_GoldenBytes) {
  HeadBuffer head;
  EXPECT_EQ(hex(encode_mutation_head({kRoute, mutations::add("key", -2)}, head).value()), golden("02"
                                                                                                 "00"
                                                                                                 "0300"
                                                                                                 "00000000" +
                                                                                                 kEmptyHead +
                                                                                                 "feffffffffffffff"
                                                                                                 "6b6579"));
}

TEST(RequestTest, Append_GoldenBytes) {
  HeadBuffer head;
  const Mutation more = mutations::append("key", as_byte_span("more"), Condition::if_absent());
  const MutationRequest append{kRoute, more, {}, Durability::kSync};
  EXPECT_EQ(hex(encode_mutation_head(append, head).value()), golden("02"
                                                                    "32"
                                                                    "0300"
                                                                    "04000000" +
                                                                    kEmptyHead + "6b6579"));
}

TEST(RequestTest, Expire_GoldenBytes) {
  HeadBuffer head;
  EXPECT_EQ(
      hex(encode_mutation_head({kRoute, mutations::expire("key", 1000), {1, 2, 2}, Durability::kMemory}, head).value()),
      golden("02"
             "10"
             "0300"
             "00000000"
             "0100000000000000"
             "0200000000000000"
             "0200000000000000"
             "0000000000000000"
             "e803000000000000"
             "6b6579"));
}

TEST(RequestTest, Mutations_RefuseWhatTheyCannotHave) {
  const auto is_taken = [](const Mutation& mutation, const RequestId& id = {}) {
    HeadBuffer head;
    return encode_mutation_head({kRoute, mutation, id}, head).ok();
  };
  EXPECT_FALSE(is_taken(mutations::expire("k", 1, Condition::if_absent())));
  EXPECT_FALSE(is_taken(mutations::remove("k", Condition::if_absent())));
  EXPECT_FALSE(is_taken(mutations::put("k", {}, {}, kTtlMsMax + 1)));
  EXPECT_TRUE(is_taken(mutations::put("k", {}, {}, kTtlMsMax)));
  const std::string fields = one_field("f", "v");
  EXPECT_FALSE(is_taken(mutations::patch("k", {}, false)));
  EXPECT_FALSE(is_taken(mutations::patch("k", as_byte_span(fields), false, Condition::if_absent())));
  EXPECT_TRUE(is_taken(mutations::patch("k", as_byte_span(fields), true, Condition::if_absent())));
  EXPECT_TRUE(is_taken(mutations::patch("k", as_byte_span(fields), false, Condition::if_present())));
  EXPECT_FALSE(is_taken(mutations::patch("k", as_byte_span(fields), true, Condition::if_present())));
  Mutation keeping = mutations::put_keeping_ttl("k", {});
  EXPECT_TRUE(is_taken(keeping));
  keeping.ttl_ms = 1;
  EXPECT_FALSE(is_taken(keeping));
  Mutation append = mutations::append("k", as_byte_span("v"));
  append.keep_ttl = true;
  EXPECT_FALSE(is_taken(append));
  Mutation marked = mutations::put("k", as_byte_span("v"));
  marked.mark.tag = 1;
  EXPECT_TRUE(is_taken(marked));
  marked.mark.row = true;
  EXPECT_FALSE(is_taken(marked)) << "the value is no row";
  const std::string twice = fields + fields;
  marked.value = as_byte_span(twice);
  EXPECT_FALSE(is_taken(marked)) << "its fields have the same name";
  marked.value = as_byte_span(fields);
  EXPECT_TRUE(is_taken(marked));
  marked.kind = Mutation::Kind::kPatch;
  EXPECT_FALSE(is_taken(marked)) << "PATCH keeps the tag";
  marked.mark.tag = 0;
  EXPECT_TRUE(is_taken(marked));
  Mutation add = mutations::add("k", 1);
  add.mark.tag = 1;
  EXPECT_FALSE(is_taken(add));
  EXPECT_FALSE(is_taken(mutations::add("k", 1), {0, 1, 0})) << "a seq of nobody";
  EXPECT_FALSE(is_taken(mutations::add("k", 1), {5, 0, 0})) << "seqs start at 1";
  EXPECT_FALSE(is_taken(mutations::add("k", 1), {5, 2, 3})) << "this one is not answered";
  Mutation other = mutations::remove("k");
  other.value = as_byte_span("value");
  EXPECT_FALSE(is_taken(other)) << "a removal has no value";
  other = mutations::put("k", {});
  other.delta = 1;
  EXPECT_FALSE(is_taken(other)) << "a value has no delta";
}

TEST(RequestTest, Methods_OfMutationsAndBack) {
  for (const Method method :
       {Method::kPut, Method::kDelete, Method::kPatch, Method::kAdd, Method::kAppend, Method::kExpire}) {
    ASSERT_TRUE(kind_of(method).has_value()) << method_name(method);
    EXPECT_EQ(method_of(*kind_of(method)), method);
  }
  for (const Method method : {Method::kGet, Method::kMultiGet, Method::kScan, Method::kBatch, Method::kReplicate}) {
    EXPECT_FALSE(kind_of(method).has_value()) << method_name(method);
  }
}

TEST(RequestTest, MultiGet_GoldenBytes) {
  const std::vector<std::string_view> keys = {"a", "bc"};
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  EXPECT_EQ(hex(encode_multi_get(kRoute, keys, buffer).value()), golden("02"
                                                                        "00"
                                                                        "0000"
                                                                        "02000000"
                                                                        "0100"
                                                                        "61"
                                                                        "0200"
                                                                        "6263"));
}

TEST(RequestTest, Scan_GoldenBytes) {
  const ScanRequest scan{kRoute, "s", "end", 10, 0x01000000, "to"};
  std::vector<std::byte> buffer(scan_bytes(scan));
  EXPECT_EQ(hex(encode_scan(scan, buffer).value()), golden("02"
                                                           "00"
                                                           "0100"
                                                           "0a000000"
                                                           "00000001"
                                                           "0300"
                                                           "0200"
                                                           "73"
                                                           "656e64"
                                                           "746f"));
}

TEST(RequestTest, DecodePut_YieldsViewsOfTheInput) {
  HeadBuffer head;
  const std::string value(1000, 'v');
  const std::string bytes =
      joined(encode_mutation_head({kRoute, mutations::put("key", as_byte_span(value), Condition::if_version(7))}, head)
                 .value(),
             as_byte_span(value));
  const MutationRequest request = decode_mutation(Method::kPut, as_byte_span(bytes)).value();
  EXPECT_EQ(request.route, kRoute);
  const Mutation& put = request.mutation;
  EXPECT_EQ(put.condition, Condition::if_version(7));
  EXPECT_EQ(put.key, "key");
  EXPECT_EQ(as_string_view(put.value), value);
  EXPECT_EQ(as_string_view(put.value).data(), bytes.data() + bytes.size() - value.size());
}

TEST(RequestTest, DecodeMultiGet_IteratesKeysInOrder) {
  const std::vector<std::string_view> keys = {"one", "two", "two", "three"};
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  const MultiGetRequest request = decode_multi_get(encode_multi_get(kRoute, keys, buffer).value()).value();
  std::vector<std::string_view> seen;
  for (std::string_view key : request.keys) seen.push_back(key);
  EXPECT_EQ(seen, keys);
  EXPECT_EQ(request.keys.size(), keys.size());
}

TEST(RequestTest, MultiGet_HasItsWishes) {
  const std::vector<std::string_view> keys = {"key"};
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  for (const MultiGetWishes wishes : {MultiGetWishes{}, {.marks = true}, {.memory_only = true}, {true, true}}) {
    EXPECT_EQ(decode_multi_get(encode_multi_get(kRoute, keys, buffer, wishes).value()).value().wishes, wishes);
  }
}

TEST(RequestTest, DecodeRoute_OfEachMethod) {
  Rng rng(2);
  for (const auto& [recode, bytes] : random_requests(rng)) {
    ASSERT_TRUE(decode_route(as_byte_span(bytes)).ok());
    EXPECT_FALSE(decode_route(as_byte_span(bytes).first(kRequestHeaderBytes - 1)).ok());
  }
}

TEST(RequestTest, Limits_AreNamedWithTheActualSize) {
  HeadBuffer head;
  const std::string long_key(kKeyBytesMax + 1, 'k');
  EXPECT_EQ(encode_get({kRoute, ""}, head).status().message(), "the key is empty; it must have 1 byte at least");
  EXPECT_EQ(encode_get({kRoute, long_key}, head).status().message(),
            "the key has 1,025 bytes; at most 1,024 are allowed");
  const std::string large(kValueBytesMax + 1, 'v');
  const absl::Status status = encode_mutation_head({kRoute, mutations::put("key", as_byte_span(large))}, head).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the value has 16,777,217 bytes; at most 16,777,216 are allowed");

  std::vector<std::byte> buffer(1 << 20);
  const std::vector<std::string_view> keys(kBatchOpsMax + 1, "k");
  EXPECT_EQ(encode_multi_get(kRoute, keys, buffer).status().message(),
            "a MULTI_GET has 1,025 keys; at most 1,024 are allowed");
  EXPECT_FALSE(encode_multi_get(kRoute, {}, buffer).ok());
  EXPECT_FALSE(encode_scan({kRoute, "", "", 0, 1, ""}, buffer).ok());
  EXPECT_FALSE(encode_scan({kRoute, "", "", kScanRowsMax + 1, 1, ""}, buffer).ok());
  EXPECT_FALSE(encode_scan({kRoute, "", "", 1, kScanBytesMax + 1, ""}, buffer).ok());
  EXPECT_FALSE(encode_scan({kRoute, long_key, "", 1, 1, ""}, buffer).ok());
}

TEST(RequestTest, Limits_HoldOnTheServerToo) {
  // What a foreign encoder could send: valid but for the size.
  HeadBuffer head;
  const std::string largest(kValueBytesMax, 'v');
  std::string bytes = joined(encode_mutation_head({kRoute, mutations::put("key", as_byte_span(largest))}, head).value(),
                             as_byte_span(largest));
  EXPECT_TRUE(decode_mutation(Method::kPut, as_byte_span(bytes)).ok());
  bytes.push_back('v');
  store_le(reinterpret_cast<std::byte*>(bytes.data()) + 28, static_cast<uint32_t>(kValueBytesMax + 1));
  EXPECT_EQ(decode_mutation(Method::kPut, as_byte_span(bytes)).status().message(),
            "the value has 16,777,217 bytes; at most 16,777,216 are allowed");

  const std::string longest(kKeyBytesMax, 'k');
  bytes = as_string_view(encode_get({kRoute, longest}, head).value());
  EXPECT_TRUE(decode_get(as_byte_span(bytes)).ok());
  bytes.push_back('k');
  store_le(reinterpret_cast<std::byte*>(bytes.data()) + 26, static_cast<uint16_t>(kKeyBytesMax + 1));
  EXPECT_EQ(decode_get(as_byte_span(bytes)).status().message(), "the key has 1,025 bytes; at most 1,024 are allowed");
}

TEST(RequestTest, Encode_SmallBufferIsRefused) {
  const std::vector<std::string_view> keys = {"one", "two"};
  std::vector<std::byte> buffer(multi_get_bytes(keys) - 1);
  EXPECT_EQ(encode_multi_get(kRoute, keys, buffer).status().code(), absl::StatusCode::kInvalidArgument);
  const ScanRequest scan{kRoute, "s", "end", 10, 100, "to"};
  buffer.resize(scan_bytes(scan) - 1);
  EXPECT_EQ(encode_scan(scan, buffer).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RequestTest, RoundTrip_RandomRequests) {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    for (const auto& [recode, bytes] : random_requests(rng)) ASSERT_EQ(recode(as_byte_span(bytes)), bytes);
  }
}

TEST(RequestTest, Decode_TruncatedAtEachByteOrWithOneMore) {
  Rng rng(4);
  for (const auto& [recode, bytes] : random_requests(rng)) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(recode(as_byte_span(bytes).first(size))) << size << " of " << bytes.size();
    }
    ASSERT_FALSE(recode(as_byte_span(bytes + '\0')));
  }
}

TEST(RequestTest, Decode_FlippedBitsAreRefusedOrMeanSomethingElse) {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    for (auto& [recode, bytes] : random_requests(rng)) {
      bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
      const auto recoded = recode(as_byte_span(bytes));
      if (recoded) {
        ASSERT_EQ(*recoded, bytes);
      }
    }
  }
}

}  // namespace
}  // namespace skua::kv
