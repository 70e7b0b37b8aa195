# The steps of deploy/check (check.py), each a function step_NAME; sourced, not run. common.sh is sourced before.
#
# From check.py: $jobs, $fuzz_seconds, $whole, $built (there is a release build of this tree), $logs, and $notes (the file that
# check.py reads when the step has ended).
# shellcheck shell=bash disable=SC2154

cd "$repo" || exit 1

# A step that ends with this code could not run here.
skipped=77
# Simulated worlds are slow under a sanitizer: fewer of them there, and no mutants (those are about the checker).
asan_seeds=40
quickstart_port=17400
# For the sanitizers' stacks; tests/tsan.supp names functions. Another version than the compiler's does not read its output.
symbolizer=/usr/lib/llvm-19/bin/llvm-symbolizer

# This step has looked at so many of something. A step that never says so fails.
checked() { # N WHAT...
  printf 'checked %s\n' "$*" >>"$notes"
}
# A line for the summary.
note() {
  printf 'note %s\n' "$*" >>"$notes"
}
# Ends the step: it cannot run here.
skip() { # WHY...
  note "$*"
  exit "$skipped"
}

# ---- What steps need

# Packages of groups of deploy/install-deps. What the build cannot do without must be there; of the rest, steps say what they lack.
need_packages() { # GROUP...
  deploy/install-deps build run
  [ $# -eq 0 ] || deploy/install-deps "$@" || echo "check: going on without some packages; what needs them is skipped, or fails and says so"
}

configure() { # PRESET
  cmake --preset "$1"
}

build_targets() { # PRESET TARGET...
  local preset=$1
  shift
  cmake --build --preset "$preset" -j "$jobs" --target "$@"
}

# The release build of everything. Not when the step `build` has done that: steps run side by side, and two builds in one
# folder do not.
need_release() {
  [ "$built" = false ] || return 0
  need_packages check
  configure release
  build_targets release all
}

# ---- Running tests

# Runs tests, says how many, and which of them, or what in them, was skipped.
run_tests() { # FOLDER CTEST_ARGUMENTS...
  local folder=build/$1 report code=0
  shift
  report=$logs/tests-$BASHPID.xml
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$jobs" --output-junit "$report" \
    --test-output-size-passed 1000000 "$@" || code=$?
  [ ! -e "$report" ] || python3 deploy/test-report "$report" >>"$notes"
  rm -f "$report"
  return "$code"
}

# ---- The steps

step_deps() {
  need_packages check
  deploy/install-deps vm || note "without an emulated guest: its packages cannot be had"
  checked "$(deploy/install-deps --list build run check vm | wc -l)" packages
}

step_build() {
  need_packages
  configure release
  build_targets release all
  checked "$(grep -c '"file":' build/release/compile_commands.json)" translation units
}

step_headers() {
  local all again scope=()
  need_packages
  configure release
  mapfile -t all < <(grep -o 'tests/tidy/headers/[^" ]*[.]h[.]cc"' build/release/compile_commands.json |
    sed 's|^tests/tidy/headers/||; s|[.]cc"$||' | sort -u)
  [ "$whole" = false ] || scope=(--whole)
  python3 deploy/changed.py "${scope[@]}" "${all[@]}" >"$logs/headers.again"
  mapfile -t again < <(sed 's|.*|tests/tidy/CMakeFiles/skua_headers.dir/headers/&.cc.o|' "$logs/headers.again")
  [ "${#again[@]}" -eq 0 ] || build_targets release "${again[@]}"
  checked "${#all[@]}" headers
  note "${#again[@]} compiled: what changed since deploy/clean-commit, and what includes that"
}

# Each registered test is in one of these two, or in the step packages: the label decides (tests/deploy/check_test.py sees to it).
step_test() {
  need_release
  run_tests release -LE 'processes|packages'
}

step_cluster() {
  need_release
  run_tests release -L processes
}

step_structure() {
  python3 tests/tidy/tidy.py "$repo"
  python3 tests/tidy/tidy_test.py
  checked "$(git ls-files '*.cc' '*.h' 2>/dev/null | wc -l)" files
}

step_format() {
  local files
  need_packages check
  mapfile -d '' -t files < <(find app control examples/c include kvstore rpc tests ycsb -regex '.*[.]\(c\|cc\|h\|hpp\)' -print0 | sort -z)
  printf '%s\0' "${files[@]}" | xargs -0 -n 50 clang-format-14 --dry-run -Werror
  checked "${#files[@]}" files
  mapfile -t files < <(grep -lE '^(#!.*bash|# shellcheck shell=bash)' -r deploy tests/vm .ci)
  shellcheck -x "${files[@]}"
  checked "${#files[@]}" scripts
}

step_quickstart() {
  deploy/quickstart --port "$quickstart_port" --records 10000 --operations 10000
  deploy/quickstart --port "$quickstart_port" --records 10000 --operations 10000 --skip-install --skip-build --secure
  checked 40000 operations
}

step_readme() {
  need_release
  python3 tests/docs/commands.py | tee "$logs/readme.count"
  checked "$(sed -n 's/^looked at .*, ran \([0-9]*\); .*/\1/p' "$logs/readme.count")" 'commands, by running them'
  note "$(sed -n 's/^looked at \([0-9]*\) commands, .*/\1/p' "$logs/readme.count") are there in all"
  sed -n '/^not run, /p' "$logs/readme.count" | while IFS= read -r line; do note "$line"; done
}

step_packages() {
  need_release
  run_tests release -L packages
  # All its tests were skipped, and the notes say why.
  ! grep -qx 'checked 0 tests' "$notes" || exit "$skipped"
}

step_vm() {
  local code=0
  need_packages vm
  need_release
  tests/vm/run 2>"$logs/vm.words" || code=$?
  cat "$logs/vm.words"
  [ "$code" -ne "$skipped" ] || skip "$(tail -n 1 "$logs/vm.words")"
  checked "$(sed -n 's/^vm: \([0-9]*\) of .* commands succeeded.*/\1/p' "$logs/vm.words")" commands
  [ "$code" -eq 0 ] || return "$code"
  # Two machines, and a wire that loses frames.
  tests/vm/run --timeout 600 --netem 'loss 1%' --peer 'tests/vm/wire serve' tests/vm/wire try
}

step_tidy() {
  local scope=()
  need_packages check
  # Not release: there, sources are compiled together.
  configure dev
  build_targets dev generated
  [ "$whole" = true ] || scope=(--changed)
  deploy/run-clang-tidy -j "$jobs" "${scope[@]}" build/dev | tee "$logs/tidy.count"
  checked "$(sed -n 's/^clang-tidy: \([0-9]*\) files, .*/\1/p' "$logs/tidy.count")" files
  note "$(sed -n 's/^clang-tidy: [0-9]* files, \(.*\)/\1/p' "$logs/tidy.count")"
}

step_asan() {
  need_packages check
  configure asan
  build_targets asan all
  export ASAN_OPTIONS=detect_leaks=1:external_symbolizer_path=$symbolizer
  export UBSAN_OPTIONS=print_stacktrace=1:external_symbolizer_path=$symbolizer
  run_tests asan -LE processes -E _sim_
  # One beside the other: each runs on one thread.
  # shellcheck disable=SC2016  # the inner shell expands it
  printf '%s\n' kv_cluster_sim kv_replication_sim kv_shard_sim rpc_sim 'rpc_sim --sealed' kv_log_sim |
    xargs -I{} -P "$jobs" bash -c 'exec build/asan/bin/$1 --seeds "$2"' asan {} "$asan_seeds"
  checked $((6 * asan_seeds)) 'simulated worlds'
}

step_tsan() {
  need_packages check
  configure tsan
  build_targets tsan threaded_tests
  export TSAN_OPTIONS="suppressions=$repo/tests/tsan.supp halt_on_error=1 external_symbolizer_path=$symbolizer"
  run_tests tsan -L threads
}

fuzz_one() { # PROGRAM
  local name=${1##*/} folders runs
  local seeds=tests/fuzz/corpus/$name corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  folders=("$corpus")
  [ ! -d "$seeds" ] || folders+=("$seeds")
  if ! "$1" -max_total_time="$fuzz_seconds" -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
    "${folders[@]}" >"$logs/$name.log" 2>&1; then
    tail -n 40 "$logs/$name.log"
    # What was found, where, and the input, in a few lines for the summary: this machine may be gone soon.
    { grep -E -m 3 'ERROR: |Check failed|CHECK failed|terminate called' "$logs/$name.log"
      grep -E '^ +#[0-9]+ .* in ' "$logs/$name.log" | head -n 12
      grep -E '^(SUMMARY|Base64): ' "$logs/$name.log"; } | cut -c 1-400 | while IFS= read -r line; do note "$name: $line"; done
    echo "fuzz: $name found something; run $1 with the build/fuzz/$name-* file that it wrote"
    return 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name.log")
  echo "fuzz: $name: ${runs:-0} inputs"
  if grep -q 'no interesting inputs were found' "$logs/$name.log" || [ "${runs:-0}" -lt 100 ]; then
    echo "fuzz: $name learns nothing from its inputs: is what it tests compiled for coverage? See $logs/$name.log"
    return 1
  fi
}

step_fuzz() {
  local programs
  need_packages check
  configure asan
  build_targets asan fuzzers
  mapfile -t programs < <(find build/asan/bin/fuzzers -type f | sort)
  export -f fuzz_one note
  export fuzz_seconds logs notes
  # shellcheck disable=SC2016  # the inner shell expands it
  printf '%s\0' "${programs[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz
  checked "${#programs[@]}" targets
}
