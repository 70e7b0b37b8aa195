// Frames and addresses as they come from a network: nothing is read outside, and what is accepted is consistent.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/transport/dpdk/address.h"
#include "rpc/transport/dpdk/frame.h"
#include "rpc/transport/dpdk/path_mtu.h"

using skua::ByteSpan;
namespace dpdk = skua::rpc::dpdk;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan input(reinterpret_cast<const std::byte*>(data), size);
  // Of exactly this size, so that a read behind its end is seen.
  const std::vector<std::byte> frame(input.begin(), input.end());
  dpdk::ParsedFrame parsed;
  if (dpdk::parse_frame(frame, 32, parsed)) {
    SKUA_CHECK(parsed.payload_bytes >= 32 && parsed.payload_offset + parsed.payload_bytes <= frame.size(),
               "a payload outside its frame");
  }
  dpdk::InterfaceAddress self;
  for (const uint8_t family : {uint8_t{4}, uint8_t{6}}) {
    self.family = family;
    std::vector<std::byte> reply(96);
    static_cast<void>(dpdk::answer_arp(frame, self, reply));
    SKUA_CHECK(dpdk::answer_path_probe(frame, self, reply) <= reply.size(), "an echo outside its frame");
  }

  if (const auto address = dpdk::EndpointAddress::decode(frame); address.ok()) {
    SKUA_CHECK(skua::as_byte_span(address->encode()).size() == frame.size(), "an address that encodes otherwise");
    for (const dpdk::InterfaceAddress& a : address->interfaces) {
      for (const dpdk::InterfaceAddress& b : address->interfaces) static_cast<void>(a.on_link(b));
    }
  }
  return 0;
}
