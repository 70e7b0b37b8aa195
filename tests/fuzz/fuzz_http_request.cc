// Any bytes as the head of an HTTP request, cut anywhere: the end is found at the same place, and the parser takes or
// refuses the head; what it takes is made of the head's bytes.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "app/http_request.h"
#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::app {
namespace {

std::optional<size_t> head_bytes_by_pieces(std::string_view stream, std::string_view cuts) {
  std::string received;
  for (size_t i = 0; received.size() < stream.size(); ++i) {
    const size_t before = received.size();
    const size_t size = cuts.empty() ? 1 : static_cast<uint8_t>(cuts[i % cuts.size()]) % 32 + size_t{1};
    received += stream.substr(before, size);
    if (const std::optional<size_t> found = http_head_bytes(received, before)) return found;
  }
  return std::nullopt;
}

void run(fuzz::FuzzInput input) {
  const std::string cuts = input.short_text();
  const std::string stream(as_string_view(input.take_rest()));
  static_cast<void>(is_address_or_localhost(stream));
  const std::optional<size_t> bytes = http_head_bytes(stream);
  SKUA_CHECK(bytes == head_bytes_by_pieces(stream, cuts), "another cut gives another head");
  if (!bytes.has_value()) return;
  SKUA_CHECK(*bytes > 0 && *bytes <= stream.size(), "a head beyond the bytes");
  const std::string head = stream.substr(0, *bytes);  // memory of its own: reads beyond it are seen
  const absl::StatusOr<HttpRequest> request = parse_http_request(head);
  if (!request.ok()) {
    SKUA_CHECK(!request.status().message().empty(), "a refusal without a reason");
    return;
  }
  SKUA_CHECK(request->path.starts_with('/'), "a path without a slash");
  SKUA_CHECK(head.find(request->path) != std::string::npos, "a path that was not sent");
  SKUA_CHECK(head.find(request->host) != std::string::npos, "a host that was not sent");
  SKUA_CHECK(request->host.find('\n') == std::string::npos, "a header that spans lines");
}

}  // namespace
}  // namespace skua::app

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::app::run(skua::fuzz::FuzzInput(std::as_bytes(std::span(data, size))));
  return 0;
}
