# Certificates of a cluster that deploy/cluster runs; sourced, not run. common.sh is sourced before.
#
#   DIR/certificates/ca/ca.pem, ca.key        the authority
#   DIR/certificates/NAME.pem, NAME.key       of node0, control, admin, client ...
# shellcheck shell=bash disable=SC2154  # common.sh sets bin

certificate_dir() { # DIR
  echo "$1/certificates"
}

# What a program that ran before keeps about who it is; nothing if it did not.
identity_word() { # DATA_DIR NAME
  sed -n "s/^$2 = \"\(.*\)\"$/\1/p" "$1/identity.toml" 2>/dev/null || true
}

# Makes the authority, and the certificates that are missing. A node's name is its uuid, which its data directory keeps. A
# cluster that ran without certificates keeps its id.
make_certificates() { # DIR NAME...
  local dir=$1 at name role place cluster_id=
  at=$(certificate_dir "$dir")
  shift
  if [ ! -e "$at/ca/ca.pem" ]; then
    for name in "$@"; do cluster_id=${cluster_id:-$(identity_word "$dir/$name" cluster_id)}; done
    "$bin/skuactl" cert init "$at/ca" ${cluster_id:+--cluster-id "$cluster_id"} >/dev/null || fail "no authority could be made in $at/ca"
  fi
  for name in "$@" admin client; do
    [ ! -e "$at/$name.pem" ] || continue
    case $name in
      control*) role=control ;;
      node*) role=node ;;
      *) role=$name ;;
    esac
    place=$at/new
    rm -rf "$place"
    if [ "$role" = node ]; then
      # shellcheck disable=SC2046  # none, or one word
      "$bin/skuactl" cert issue node $(identity_word "$dir/$name" node_uuid) --authority "$at/ca" --out "$place" >/dev/null
    else
      "$bin/skuactl" cert issue "$role" "$name" --authority "$at/ca" --out "$place" >/dev/null
    fi || fail "no certificate could be issued for $name"
    mv "$place"/*.key "$at/$name.key"
    mv "$place"/*.pem "$at/$name.pem"
    rmdir "$place"
  done
}

# The options that give a program the certificate of NAME, each ended by a zero byte.
certificate_options() { # DIR NAME
  local at
  at=$(certificate_dir "$1")
  printf '%s\0' --cert "$at/$2.pem" --key "$at/$2.key" --ca "$at/ca/ca.pem"
}

# skuactl acts as an administrator from here on.
act_as_admin() { # DIR
  local at
  at=$(certificate_dir "$1")
  export SKUA_CERT=$at/admin.pem SKUA_KEY=$at/admin.key SKUA_CA=$at/ca/ca.pem
}

# Lines for skua-ycsb -P, which acts as a client.
certificate_properties() { # DIR
  local at
  at=$(certificate_dir "$1")
  printf 'skua.cert=%s\nskua.key=%s\nskua.ca=%s\n' "$at/client.pem" "$at/client.key" "$at/ca/ca.pem"
}
