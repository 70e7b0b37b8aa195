// control_access_mutants_test: the tests of who may do what find each rule that is left out.
#include "control/security/access_mutants.h"
#include "tests/mutant_main.h"

namespace skua::control {
namespace {

constexpr auto& of_access = simulation::mutant_of<active_mutant<AccessMutant>>;

const simulation::NamedMutant kMutants[] = {
    of_access("any-role", AccessMutant::kAnyRole),         of_access("any-server", AccessMutant::kAnyServer),
    of_access("any-cluster", AccessMutant::kAnyCluster),   of_access("any-node", AccessMutant::kAnyNode),
    of_access("any-document", AccessMutant::kAnyDocument), of_access("any-anonymous", AccessMutant::kAnyAnonymous),
};

}  // namespace
}  // namespace skua::control

int main(int argc, char** argv) {
  return skua::simulation::find_mutants(argc, argv, skua::control::kMutants);
}
