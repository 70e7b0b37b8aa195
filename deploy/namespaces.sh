# The network of a cluster over DPDK, on one machine without a network card to spare; sourced by deploy/cluster.
# shellcheck shell=bash disable=SC2154
#
#    the host             skua-7500-node0     skua-7500-node1     skua-7500-client
#      |                   data0   grpc0       data0   grpc0       data0   grpc0
#      |                     |       |           |       |           |       |
#    sk7500d  (bridge) ------+-------|-----------+-------|-----------+       |
#    sk7500g  (bridge, 198.18.58.1) -+-------------------+-------------------+
#
# Each process with a DPDK port has a network namespace with two interfaces. data0 has no address of the kernel's: DPDK alone
# sends there, and answers for 10.77.0.x. grpc0 has 198.18.58.x, which control plane, bootstrap and the host reach each other by.
# All names and the third byte come from the cluster's base port, so that clusters stand side by side, and so that what one
# has left behind (killed, its directory gone) is found again by the next start or stop.
#
# Uses: base_port, nodes; from common.sh: fail.

client_index=252 # as an address: .254

namespace_of() { echo "skua-$base_port-$1"; } # NODE_NAME or `client`
data_bridge() { echo "sk${base_port}d"; }
grpc_bridge() { echo "sk${base_port}g"; }
# 128 base ports share a /24 of 198.18.0.0/15, the range that is set aside for benchmarks.
grpc_network() { echo "198.$((18 + base_port / 128 / 256)).$((base_port / 128 % 256))"; }
grpc_gateway() { echo "$(grpc_network).1"; }
grpc_address() { echo "$(grpc_network).$((2 + $1))"; } # INDEX
data_address() { echo "10.77.0.$((2 + $1))/24"; }     # INDEX
dpdk_device() { echo "net_${1}0,iface=data0"; }       # DRIVER

need_namespaces() {
  [ "$(id -u)" -eq 0 ] ||
    fail "--transport dpdk makes network namespaces and bridges, and so needs root: sudo deploy/$self ..."
  command -v ip >/dev/null || fail "the program ip is missing: deploy/install-deps run"
}

# The namespaces that this cluster has, or a former one with its base port has left.
existing_namespaces() {
  ip netns list 2>/dev/null | sed -n "s/^\(skua-$base_port-[a-z0-9]*\).*/\1/p"
}

# pids of the nodes in them, and of the control plane on their bridge.
servers_on_network() {
  local namespace pid
  for namespace in $(existing_namespaces); do
    for pid in $(ip netns pids "$namespace" 2>/dev/null); do
      if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = skuad ]; then echo "$pid"; fi
    done
  done
  for pid in $(pgrep -x skua-control); do
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "--listen-address $(grpc_gateway):"; then echo "$pid"; fi
  done
}

add_namespace() { # NODE_NAME INDEX
  local namespace
  namespace=$(namespace_of "$1")
  ip netns add "$namespace"
  ip link add "sk${base_port}d$2" type veth peer name data0 netns "$namespace"
  ip link add "sk${base_port}g$2" type veth peer name grpc0 netns "$namespace"
  ip link set "sk${base_port}d$2" master "$(data_bridge)" up
  ip link set "sk${base_port}g$2" master "$(grpc_bridge)" up
  # No address of the kernel's on data0, not even one that it makes itself.
  ip netns exec "$namespace" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/data0/disable_ipv6' 2>/dev/null || true
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link set data0 up
  ip -n "$namespace" link set grpc0 up
  ip -n "$namespace" address add "$(grpc_address "$2")/24" dev grpc0
}

make_network() {
  local i owner
  [ -z "$(servers_on_network)" ] ||
    fail "another cluster with base port $base_port runs: stop it, or choose another --base-port, 128 away or more"
  remove_network
  owner=$(ip -o -4 address show | sed -n "s/^[0-9]*: \([^ ]*\) .* $(grpc_gateway)\/.*/\1/p")
  [ -z "$owner" ] || fail "$owner has $(grpc_gateway) already: choose a --base-port that is 128 away or more"
  for i in "$(data_bridge)" "$(grpc_bridge)"; do
    ip link add "$i" type bridge || fail "cannot make a bridge: does the kernel have bridge, veth and network namespaces?"
    ip link set "$i" up
  done
  ip address add "$(grpc_gateway)/24" dev "$(grpc_bridge)"
  for ((i = 0; i < nodes; i++)); do add_namespace "node$i" "$i"; done
  add_namespace client "$client_index"
}

# Whatever there is of it. Programs that still run in a namespace lose their network, not their lives.
remove_network() {
  local name
  for name in $(existing_namespaces); do ip netns delete "$name"; done
  # A namespace in use keeps its interfaces until it is left; their other ends are ours to take away.
  for name in $(ip -o link show 2>/dev/null | sed -n "s/^[0-9]*: \(sk${base_port}[dg][0-9]*\)[@:].*/\1/p"); do
    ip link delete "$name" 2>/dev/null || true
  done
}
