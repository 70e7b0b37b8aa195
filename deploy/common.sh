# Shared by the scripts here; sourced, not run.
# shellcheck shell=bash

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${SKUA_BIN_DIR:-$repo/build/release/bin}
host=127.0.0.1
self=${0##*/}

# ---- What the programs are called, and with which options: all of it stands here, each printing one word per NUL.

# HOST:PORT of each of the control processes, whose number is $controls; the first has this port.
control_addresses() { # PORT
  local i text=$host:$1
  for ((i = 1; i < ${controls:-1}; i++)); do text+=,$host:$(($1 + i)); done
  echo "$text"
}
control_command() { # DIR PORT [NAME [METADATA]]
  printf '%s\0' "$bin/skua-control" --listen-address "$host:$2" --data-dir "$1/${3:-control}" ${4:+--metadata "$4"}
}
# Limits as control/store/etcd_address.h wants them.
etcd_command() { # DIR PORT
  local client=http://127.0.0.1:$2 peer=http://127.0.0.1:$(($2 + 1))
  printf '%s\0' etcd --name skua --data-dir "$1/etcd" --logger zap --log-level warn --listen-client-urls "$client" \
    --advertise-client-urls "$client" --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
    --initial-cluster "skua=$peer" --max-txn-ops 10000 --max-request-bytes 8388608 \
    --auto-compaction-mode revision --auto-compaction-retention 10000
}
node_command() { # DIR INDEX CONTROL_PORT BASE_PORT WORKERS
  local port=$(($4 + 100 * $2))
  printf '%s\0' "$bin/skuad" --control-address "$(control_addresses "$3")" --data-dir "$1/node$2" \
    --grpc-address "$host:$port" --data-address "$host:$((port + 1))" --workers "$5"
}
dpdk_node_command() { # DIR INDEX CONTROL_PORT GRPC_ADDRESS WORKERS NAMESPACE DEVICE DATA_ADDRESS HUGE_PAGES
  printf '%s\0' ip netns exec "$6" "$bin/skuad" --control-address "$(control_addresses "$3")" --data-dir "$1/node$2" \
    --grpc-address "$4" --workers "$5" --transport dpdk --dpdk-devices "$7" --dpdk-addresses "$8" \
    "--dpdk-huge-pages=$9"
}
ctl() { # CONTROL_PORT ARGUMENTS...
  local port=$1
  shift
  "$bin/skuactl" --control-address "$(control_addresses "$port")" "$@"
}
# How many nodes serve what the shard map says, or tell of a trouble that keeps them from it; 0 when the control plane does not
# answer. A node registers earlier: then it makes, or reads, its log.
ready_nodes() { # CONTROL_PORT
  ctl "$1" --output json status 2>/dev/null | python3 -c '
import json, sys
nodes = [node for node in json.load(sys.stdin)["nodes"] if node["state"] == "alive"]
print(sum(node["applied_revision"] > 0 or node["trouble"] != "" for node in nodes))' 2>/dev/null || echo 0
}

# "1 node", "3 nodes".
counted() { # N ONE MANY
  if [ "$1" -eq 1 ]; then echo "1 $2"; else echo "$1 $3"; fi
}

# ---- Saying no

fail() {
  echo "$self: $*" >&2
  exit 1
}

usage_error() {
  echo "$self: $* (see deploy/$self --help)" >&2
  exit 2
}

# need_number OPTION VALUE [LOW HIGH]
need_number() {
  if ! [[ ${2:-} =~ ^[0-9]{1,9}$ ]] || [ "$2" -lt "${3:-1}" ] || [ "$2" -gt "${4:-999999999}" ]; then
    usage_error "$1 needs a number from ${3:-1} to ${4:-999999999}, not \"${2:-}\""
  fi
}

# need_word OPTION VALUE ALLOWED...
need_word() {
  local option=$1 value=$2
  shift 2
  [[ " $* " == *" $value "* ]] || usage_error "$option must be one of: $*; not \"$value\""
}

need_programs() {
  local program
  for program in "$@"; do
    [ -x "$bin/$program" ] ||
      fail "$bin/$program does not exist; build first: cmake --preset release && cmake --build --preset release"
  done
}

# ---- Processes and time

# True if the process that a pid file names runs, and is this program. A dead child that nobody has waited for does not
# run, and a number that another program got since is not ours.
is_running() { # PID_FILE PROGRAM
  local pid name state
  { read -r pid <"$1"; } 2>/dev/null || return 1
  [[ $pid =~ ^[0-9]+$ ]] || return 1
  name=$(cat "/proc/$pid/comm" 2>/dev/null) || return 1
  state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null) || return 1
  # The kernel keeps 15 characters of the name.
  [ "$name" = "${2:0:15}" ] && [ "$state" != Z ] && [ "$state" != X ]
}

# True as soon as COMMAND is, within SECONDS.
wait_until() { # SECONDS COMMAND...
  local limit=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$limit" ] || return 1
    sleep 0.1
  done
}

is_listening() { # HOST PORT
  (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null
}
