# CPack's settings for one Debian package. deploy/package gives, as environment variables
# (cpack sets what -D says only after it has read this file):
#   SKUA_PACKAGE   its name                 SKUA_TREE      what it installs, as it lies below /
#   SKUA_VERSION   its version              SKUA_CONTROL   maintainer scripts and conffiles
#   SKUA_MAINTAINER
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME $ENV{SKUA_PACKAGE})
set(CPACK_PACKAGE_VERSION $ENV{SKUA_VERSION})
set(CPACK_PACKAGE_VENDOR Skua)
set(CPACK_PACKAGE_CONTACT $ENV{SKUA_MAINTAINER})
set(CPACK_PACKAGE_FILE_NAME "$ENV{SKUA_PACKAGE}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_INSTALLED_DIRECTORIES "$ENV{SKUA_TREE};/")
set(CPACK_PACKAGING_INSTALL_PREFIX "/")
set(CPACK_DEBIAN_PACKAGE_SOURCE skua)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# Which packages have the libraries that the programs are linked with, in which versions.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(GLOB CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "$ENV{SKUA_CONTROL}/*")

# For the user that servers run as.
set(sysusers "systemd | systemd-standalone-sysusers")
set(about [[
Skua is a distributed, replicated key-value store. Its tables are cut into
shards. Nodes keep the shards in memory and in RocksDB, with replicas on
several machines.

]])
if("$ENV{SKUA_PACKAGE}" STREQUAL "skua-server")
  set(CPACK_DEBIAN_PACKAGE_DEPENDS ${sysusers})
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS skua-tools)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS skua-control)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed key-value store: storage node")
  set(CPACK_PACKAGE_DESCRIPTION "${about}This package has skuad, the storage node.")
elseif("$ENV{SKUA_PACKAGE}" STREQUAL "skua-control")
  set(CPACK_DEBIAN_PACKAGE_DEPENDS ${sysusers})
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS skua-tools)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed key-value store: control plane")
  set(CPACK_PACKAGE_DESCRIPTION "${about}This package has skua-control, which knows the nodes and places the\nshards.")
elseif("$ENV{SKUA_PACKAGE}" STREQUAL "skua-gateway")
  set(CPACK_DEBIAN_PACKAGE_DEPENDS ${sysusers})
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS skua-tools)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS redis-tools)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed key-value store: gateway for clients of Redis")
  set(CPACK_PACKAGE_DESCRIPTION "${about}This package has skua-gateway, which serves tables to clients of Redis.")
elseif("$ENV{SKUA_PACKAGE}" STREQUAL "skua-tools")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed key-value store: command line and benchmarks")
  set(CPACK_PACKAGE_DESCRIPTION "${about}This package has skuactl, the command line for operators and users, the\nbenchmarks skua-ycsb and skua-perf, and the example skua-tally.")
else()
  message(FATAL_ERROR "no such package: $ENV{SKUA_PACKAGE}")
endif()
