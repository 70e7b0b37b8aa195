# Shared by the scripts here; sourced, not run. Names of programs and of their options stand in this one place.
# shellcheck shell=bash

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${SKUA_BIN_DIR:-$repo/build/release/bin}
host=127.0.0.1

# Options of the programs, in one place.
control_command() { # DIR PORT
  printf '%s\0' "$bin/skua-control" --listen-address "$host:$2" --data-dir "$1/control"
}
node_command() { # DIR INDEX CONTROL_PORT BASE_PORT WORKERS
  printf '%s\0' "$bin/skuad" --control-address "$host:$3" --data-dir "$1/node$2" \
    --grpc-address "$host:$(($4 + 100 * $2))" --data-address "$host:$(($4 + 100 * $2 + 1))" --workers "$5"
}

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

usage_error() {
  echo "${0##*/}: $* (see deploy/${0##*/} --help)" >&2
  exit 2
}

need_programs() {
  local program
  for program in "$@"; do
    [ -x "$bin/$program" ] || fail "$bin/$program does not exist; build first: cmake --preset release && cmake --build --preset release"
  done
}

# True if the process in this pid file runs and is the named program.
is_running() { # PID_FILE PROGRAM
  local pid
  [ -r "$1" ] || return 1
  pid=$(cat "$1")
  [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]
}

# wait_until SECONDS COMMAND...: true as soon as the command is.
wait_until() {
  local limit=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$limit" ] || return 1
    sleep 0.1
  done
}
