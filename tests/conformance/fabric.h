// Two or more endpoints over one kind of transport, driven by the test's thread: what the conformance suite runs on.
//
// A fabric that cannot run here says why, and its tests are skipped with that reason.
#ifndef SKUA_TESTS_CONFORMANCE_FABRIC_H_
#define SKUA_TESTS_CONFORMANCE_FABRIC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/endpoint.h"

namespace skua::rpc::conformance {

class Fabric {
 public:
  virtual ~Fabric() = default;

  /// A transport for host number `host`; a second one for the same host after the first died is its next life.
  virtual std::unique_ptr<Transport> make_transport(uint32_t host) = 0;
  [[nodiscard]] virtual const Clock& clock() const = 0;
  /// Time passes by itself, or by this much for the fabric's own clock.
  virtual void let_time_pass(TimeNs next_timer_ns) = 0;
};

/// Opens a session from one endpoint to another, as production does over this transport: by packets, or, if it needs
/// keys, by an offer that the test carries.
absl::StatusOr<SessionId> open_session(Endpoint& from, Endpoint& to);
/// Of all offers that a test carries.
inline OfferOrigin test_origin() {
  return {.source = 1, .principal = "test"};
}

/// One kind of transport: its name, and a maker that returns null and a reason where it cannot run.
struct FabricKind {
  std::string name;
  std::function<std::unique_ptr<Fabric>(std::string& why_not)> make;
};

inline void PrintTo(const FabricKind& kind, std::ostream* out) {
  *out << kind.name;
}

/// How long a test waits for what must come, by the fabric's clock.
inline constexpr DurationNs kPatience = 60 * kSecond;

/// Bytes that a mistake would not make by chance.
inline std::string bytes_of(size_t size, uint64_t seed = 1) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(mix64(seed + i / 64) >> (i % 56));
  return out;
}

/// All kinds that this build has. Those that need a device of their own are there where such a device is.
std::vector<FabricKind> all_fabrics();

}  // namespace skua::rpc::conformance

#endif  // SKUA_TESTS_CONFORMANCE_FABRIC_H_
