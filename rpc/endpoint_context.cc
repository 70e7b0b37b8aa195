#include "rpc/endpoint_context.h"

#include <sys/random.h>

#include <utility>

namespace skua::rpc {
namespace {

/// Different for each endpoint and each of its incarnations, so that session generations do not repeat.
uint64_t seed_of(uint64_t seed, TimeNs now, const EndpointIdentity& self) {
  uint64_t out = mix64(seed) ^ mix64(static_cast<uint64_t>(now)) ^ mix64(self.incarnation + 1);
  for (uint8_t byte : self.uuid.bytes) out = mix64(out ^ byte);
  return out;
}

}  // namespace

EndpointContext::EndpointContext(Transport& its_transport, const Clock& its_clock, const EndpointOptions& its_options,
                                 std::shared_ptr<EndpointMailbox> its_mailbox)
    : transport(its_transport),
      capabilities(its_transport.capabilities()),
      one_sided(its_transport.one_sided()),
      clock(its_clock),
      options(its_options),
      mailbox(std::move(its_mailbox)),
      now_ns(its_clock.now_ns()),
      rng(seed_of(its_options.simulation_seed, now_ns, its_transport.local_descriptor().identity)) {}

uint64_t EndpointContext::secret() {
  if (options.simulation_seed != 0) return rng.next();
  uint64_t out = 0;
  const ssize_t got = ::getrandom(&out, sizeof out, 0);
  SKUA_CHECK(got == sizeof out, "getrandom(2) gives a few bytes at once");
  return out;
}

}  // namespace skua::rpc
