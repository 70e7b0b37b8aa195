// Mutants: deliberate faults, for the self-tests of the simulations. They show that the checkers find faults.
//
//   if (mutant(Mutant::kSkipSync)) ...             in the code, where the fault would be
//   active_mutant<Mutant> = Mutant::kSkipSync;     in a self-test, before it makes what it tests
//
// Only the libraries of these self-tests compile mutants in (SKUA_WITH_MUTANTS). In every other build mutant() is the
// constant false and costs nothing. Each part of the tree has an enum of its own, whose first one is kNone.
#ifndef SKUA_RPC_BASE_MUTANT_H_
#define SKUA_RPC_BASE_MUTANT_H_

namespace skua {

#ifdef SKUA_WITH_MUTANTS
/// Thread: set before there are others.
template <typename Mutants>
inline Mutants active_mutant = Mutants::kNone;

template <typename Mutants>
[[nodiscard]] bool mutant(Mutants which) {
  return active_mutant<Mutants> == which;
}
#else
template <typename Mutants>
[[nodiscard]] constexpr bool mutant(Mutants /*which*/) {
  return false;
}
#endif

}  // namespace skua

#endif  // SKUA_RPC_BASE_MUTANT_H_
