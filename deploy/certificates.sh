# Certificates of a cluster that deploy/cluster runs; sourced, not run. common.sh is sourced before.
#
#   DIR/certificates/ca/ca.pem, ca.key        the authority
#   DIR/certificates/NAME.pem, NAME.key       of node0, control, admin, client ...
# shellcheck shell=bash disable=SC2154  # common.sh sets bin

certificate_dir() { # DIR
  echo "$1/certificates"
}

# Makes the authority, and the certificates that are missing. A node's name is its uuid, which its data directory keeps.
make_certificates() { # DIR NAME...
  local at name role place
  at=$(certificate_dir "$1")
  shift
  [ -e "$at/ca/ca.pem" ] || "$bin/skuactl" cert init "$at/ca" >/dev/null || fail "no authority could be made in $at/ca"
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
      "$bin/skuactl" cert issue node --authority "$at/ca" --out "$place" >/dev/null
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
