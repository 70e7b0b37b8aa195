#include "rpc/crypto/key_derivation.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/rpc/crypto/hex.h"

namespace skua::rpc {
namespace {

TEST(KeyDerivation, HashesAsTheStandardSays) {  // FIPS 180-4, example "abc"
  EXPECT_EQ(to_hex(sha256(as_byte_span("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(KeyDerivation, DerivesAsTheStandardSays) {  // RFC 5869, A.1
  const RootSecret secret = hkdf_extract(as_byte_span(from_hex("000102030405060708090a0b0c")),
                                         as_byte_span(from_hex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b")));
  EXPECT_EQ(to_hex(secret.bytes()), "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
  std::array<std::byte, 42> out;
  hkdf_expand(secret, from_hex("f0f1f2f3f4f5f6f7f8f9"), out);
  EXPECT_EQ(to_hex(out), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(KeyDerivation, PurposesHaveDifferentBytes) {
  const RootSecret secret(as_byte_span(std::string(kHashBytes, 's')));
  std::array<std::byte, 16> one;
  std::array<std::byte, 16> other;
  hkdf_expand(secret, "one", one);
  hkdf_expand(secret, "other", other);
  EXPECT_NE(one, other);
}

TEST(KeyDerivation, RandomBytesDiffer) {
  std::array<std::byte, 16> one{};
  std::array<std::byte, 16> other{};
  draw_random(one);
  draw_random(other);
  EXPECT_NE(one, other);
}

TEST(Secret, IsWiped) {
  RootSecret secret(as_byte_span(std::string(kHashBytes, 's')));
  secret.wipe();
  EXPECT_EQ(to_hex(secret.bytes()), std::string(2 * kHashBytes, '0'));
}

}  // namespace
}  // namespace skua::rpc
