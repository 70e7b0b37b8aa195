// RDMA addresses and network headers as they come from a network: what is accepted encodes to the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/transport/verbs/address.h"

using skua::ByteSpan;
namespace verbs = skua::rpc::verbs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan input(reinterpret_cast<const std::byte*>(data), size);
  // Of exactly this size, so that a read behind its end is seen.
  const std::vector<std::byte> bytes(input.begin(), input.end());
  verbs::EndpointAddress self;
  self.gid = verbs::Gid::parse("10.77.0.1").value();
  if (const auto address = verbs::EndpointAddress::decode(bytes); address.ok()) {
    const std::string again = address->encode();
    SKUA_CHECK(again == skua::as_string_view(bytes), "an address that encodes otherwise");
    static_cast<void>(verbs::source_of(*address, self));
    static_cast<void>(address->gid.to_string());
  }
  for (const char* own : {"10.77.0.1", "fe80::1"}) {
    const verbs::Gid gid = verbs::Gid::parse(own).value();
    for (const auto network : {verbs::Network::kInfiniBand, verbs::Network::kRoceV1, verbs::Network::kRoceV2}) {
      const auto source = verbs::parse_grh(bytes, 7, network, gid);
      SKUA_CHECK(!source.has_value() || (size >= verbs::kGrhBytes && source->qp_number == 7), "a source from nowhere");
    }
  }
  return 0;
}
