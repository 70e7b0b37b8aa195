// rpc_sealed_mutants_test: the tests of keys, of sealed frames and of who may open sessions find doors that are left
// open.
#include <cstdlib>

#include "rpc/protocol/protocol_mutants.h"
#include "rpc/transport/sealed/seal_mutants.h"
#include "tests/mutant_main.h"

namespace skua::rpc {
namespace {

constexpr auto& of_seal = simulation::mutant_of<active_mutant<SealMutant>>;
constexpr auto& of_protocol = simulation::mutant_of<active_mutant<Mutant>>;

const simulation::NamedMutant kMutants[] = {
    of_seal("reuse-number", SealMutant::kReuseNumber),
    of_seal("restart-numbers", SealMutant::kRestartNumbers),
    of_seal("mark-before-tag", SealMutant::kMarkBeforeTag),
    of_seal("skip-tag", SealMutant::kSkipTag),
    of_seal("mode-of-packet", SealMutant::kModeOfPacket),
    of_seal("one-key", SealMutant::kOneKey),
    of_seal("keep-keys", SealMutant::kKeepKeys),
    of_seal("forget-window", SealMutant::kForgetWindow),
    of_seal("unsealed-for-keys", SealMutant::kUnsealedForKeys),
    of_protocol("keys-to-nobody", Mutant::kKeysToNobody),
    of_protocol("open-by-packet", Mutant::kOpenByPacket),
};

}  // namespace
}  // namespace skua::rpc

int main(int argc, char** argv) {
  // Whoever leaves a door open is found within a few attacks.
  setenv("SKUA_ATTACKS", "1000", 1);  // NOLINT(concurrency-mt-unsafe): there are no other threads
  return skua::simulation::find_mutants(argc, argv, skua::rpc::kMutants);
}
