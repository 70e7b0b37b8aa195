#include "rpc/crypto/aead.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/crypto/hex.h"

namespace skua::rpc {
namespace {

AeadNonce nonce_of(std::string_view bytes) {
  AeadNonce out;
  copy_bytes(out.data(), as_byte_span(bytes).first(out.size()));
  return out;
}

struct Sealed {
  std::string text;
  std::string tag;
  bool operator==(const Sealed&) const = default;
};

Sealed seal(Aead& aead, const AeadNonce& nonce, std::string_view associated, const std::vector<std::string>& pieces) {
  std::vector<ByteSpan> spans;
  size_t bytes = 0;
  for (const std::string& piece : pieces) {
    spans.push_back(as_byte_span(piece));
    bytes += piece.size();
  }
  Sealed out{std::string(bytes, 'x'), std::string(kAeadTagBytes, 'x')};
  aead.seal(nonce, as_byte_span(associated), spans, reinterpret_cast<std::byte*>(out.text.data()),
            reinterpret_cast<std::byte*>(out.tag.data()));
  return out;
}

/// The plain text, or "forged".
std::string open(Aead& aead, const AeadNonce& nonce, std::string_view associated, Sealed sealed) {
  const MutableByteSpan text(reinterpret_cast<std::byte*>(sealed.text.data()), sealed.text.size());
  return aead.open(nonce, as_byte_span(associated), text, as_byte_span(sealed.tag).data()) ? sealed.text : "forged";
}

std::string random_text(Rng& rng, size_t size) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(rng.next());
  return out;
}

class AeadTest : public ::testing::TestWithParam<AeadLibrary> {
 protected:
  void SetUp() override {
    if (!has_aead_library(GetParam())) GTEST_SKIP() << "not on this processor";
  }
  [[nodiscard]] static std::unique_ptr<Aead> make(std::string_view key) {
    return make_aead(AeadKey(as_byte_span(key)), GetParam());
  }
};

struct Vector {
  const char *key, *nonce, *associated, *plain, *sealed, *tag;
};

// McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 1 to 4.
constexpr std::array<Vector, 4> kVectors = {{
    {"00000000000000000000000000000000", "000000000000000000000000", "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
    {"00000000000000000000000000000000", "000000000000000000000000", "", "00000000000000000000000000000000",
     "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
     "4d5c2af327cd64a62cf35abd2ba6fab4"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
     "5bc94fbc3221a5db94fae95ae7121a47"},
}};

TEST_P(AeadTest, AgreesWithPublishedVectors) {
  for (const Vector& vector : kVectors) {
    const auto aead = make(from_hex(vector.key));
    const AeadNonce nonce = nonce_of(from_hex(vector.nonce));
    const std::string associated = from_hex(vector.associated);
    const Sealed expected{from_hex(vector.sealed), from_hex(vector.tag)};
    EXPECT_EQ(seal(*aead, nonce, associated, {from_hex(vector.plain)}), expected);
    EXPECT_EQ(open(*aead, nonce, associated, expected), from_hex(vector.plain));
  }
}

TEST_P(AeadTest, SignsWhatSealingNothingWouldSign) {
  const auto aead = make("0123456789abcdef");
  const AeadNonce nonce = nonce_of("nonce nonce!");
  Rng rng(7);
  for (size_t size = 0; size < 200; ++size) {
    const std::string data = random_text(rng, size);
    std::string tag(kAeadTagBytes, '\0');
    aead->sign(nonce, as_byte_span(data), reinterpret_cast<std::byte*>(tag.data()));
    EXPECT_EQ(tag, seal(*aead, nonce, data, {""}).tag) << size;
    EXPECT_TRUE(aead->verify(nonce, as_byte_span(data), as_byte_span(tag).data()));
    tag[size % kAeadTagBytes] ^= 1;
    EXPECT_FALSE(aead->verify(nonce, as_byte_span(data), as_byte_span(tag).data()));
  }
}

TEST_P(AeadTest, PiecesAreOneText) {
  const auto aead = make("0123456789abcdef");
  const AeadNonce nonce = nonce_of("nonce nonce!");
  Rng rng(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> pieces;
    std::string whole;
    for (uint64_t i = 1 + rng.below(5); i-- > 0;) {
      // Few bytes and many: the libraries take different ways.
      pieces.push_back(random_text(rng, rng.below(round % 2 == 0 ? 100 : 2000)));
      whole += pieces.back();
    }
    EXPECT_EQ(seal(*aead, nonce, "head", pieces), seal(*aead, nonce, "head", {whole}));
  }
}

TEST_P(AeadTest, SealsInPlace) {
  const auto aead = make("0123456789abcdef");
  const AeadNonce nonce = nonce_of("nonce nonce!");
  for (const size_t size : {1u, 16u, 44u, 1000u}) {
    Sealed sealed{std::string(size, 'p'), std::string(kAeadTagBytes, '\0')};
    const ByteSpan text = as_byte_span(sealed.text);
    aead->seal(nonce, as_byte_span("head"), std::span(&text, 1), reinterpret_cast<std::byte*>(sealed.text.data()),
               reinterpret_cast<std::byte*>(sealed.tag.data()));
    EXPECT_EQ(sealed, seal(*aead, nonce, "head", {std::string(size, 'p')}));
  }
}

TEST_P(AeadTest, EveryFlippedBitIsFound) {
  const auto aead = make("0123456789abcdef");
  const AeadNonce nonce = nonce_of("nonce nonce!");
  const std::string head = "sixteen bytes...";
  const Sealed genuine = seal(*aead, nonce, head, {std::string(70, 'p')});
  const auto flip = [](std::string text, size_t bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    return text;
  };
  for (size_t bit = 0; bit < 8 * genuine.text.size(); ++bit) {
    EXPECT_EQ(open(*aead, nonce, head, {flip(genuine.text, bit), genuine.tag}), "forged") << bit;
  }
  for (size_t bit = 0; bit < 8 * genuine.tag.size(); ++bit) {
    EXPECT_EQ(open(*aead, nonce, head, {genuine.text, flip(genuine.tag, bit)}), "forged") << bit;
  }
  for (size_t bit = 0; bit < 8 * head.size(); ++bit) {
    EXPECT_EQ(open(*aead, nonce, flip(head, bit), genuine), "forged") << bit;
  }
  for (size_t bit = 0; bit < 8 * kAeadNonceBytes; ++bit) {
    EXPECT_EQ(open(*aead, nonce_of(flip("nonce nonce!", bit)), head, genuine), "forged") << bit;
  }
  EXPECT_EQ(open(*make("0123456789abcdee"), nonce, head, genuine), "forged");
  EXPECT_EQ(open(*aead, nonce, head, {genuine.text.substr(1), genuine.tag}), "forged");
  EXPECT_EQ(open(*aead, nonce, head, genuine), std::string(70, 'p'));
}

INSTANTIATE_TEST_SUITE_P(, AeadTest, ::testing::Values(AeadLibrary::kIpsecMb, AeadLibrary::kOpenSsl),
                         [](const auto& info) { return info.param == AeadLibrary::kIpsecMb ? "IpsecMb" : "OpenSsl"; });

TEST(AeadTags, EachBitCounts) {
  std::array<std::byte, kAeadTagBytes> tag;
  for (size_t i = 0; i < tag.size(); ++i) tag[i] = static_cast<std::byte>(i * 37);
  std::array<std::byte, kAeadTagBytes> other = tag;
  EXPECT_TRUE(is_equal_tag(tag.data(), other.data()));
  for (size_t bit = 0; bit < tag.size() * 8; ++bit) {
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(is_equal_tag(tag.data(), other.data())) << bit;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(AeadLibraries, AgreeOnAnyInput) {
  if (!has_aead_library(AeadLibrary::kIpsecMb)) GTEST_SKIP() << "not on this processor";
  Rng rng(2);
  for (int round = 0; round < 2'000; ++round) {
    const AeadKey key(as_byte_span(random_text(rng, kAeadKeyBytes)));
    const auto one = make_aead(key, AeadLibrary::kIpsecMb);
    const auto other = make_aead(key, AeadLibrary::kOpenSsl);
    const AeadNonce nonce = nonce_of(random_text(rng, kAeadNonceBytes));
    const std::string associated = random_text(rng, rng.below(40));
    const std::string plain = random_text(rng, rng.below(round % 10 == 0 ? 5'000 : 300));
    const Sealed sealed = seal(*one, nonce, associated, {plain});
    ASSERT_EQ(sealed, seal(*other, nonce, associated, {plain}));
    ASSERT_EQ(open(*one, nonce, associated, sealed), plain);
    ASSERT_EQ(open(*other, nonce, associated, sealed), plain);
  }
}

}  // namespace
}  // namespace skua::rpc
