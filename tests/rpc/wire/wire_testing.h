// Helpers for tests of encoded bytes.
#ifndef SKUA_TESTS_RPC_WIRE_WIRE_TESTING_H_
#define SKUA_TESTS_RPC_WIRE_WIRE_TESTING_H_

#include <cctype>
#include <string>
#include <string_view>

#include "rpc/base/bytes.h"

namespace skua::rpc::testing {

/// The bytes written as hexadecimal digits in `text`; everything else (spaces) is skipped.
inline std::string from_hex(std::string_view text) {
  std::string out;
  int high = -1;
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
    const int digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      out.push_back(static_cast<char>(high << 4 | digit));
      high = -1;
    }
  }
  return out;
}

/// `bytes` as hexadecimal digits, for failure messages and comparisons that can be read.
inline std::string to_hex(ByteSpan bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    for (const unsigned digit : {static_cast<unsigned>(b) >> 4, static_cast<unsigned>(b) & 15}) {
      out.push_back("0123456789abcdef"[digit]);
    }
  }
  return out;
}
inline std::string to_hex(std::string_view bytes) {
  return to_hex(as_byte_span(bytes));
}

}  // namespace skua::rpc::testing

#endif  // SKUA_TESTS_RPC_WIRE_WIRE_TESTING_H_
