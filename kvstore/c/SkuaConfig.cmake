# find_package(Skua): Skua::skua for C, Skua::cpp for C++17 and C++20.
include(${CMAKE_CURRENT_LIST_DIR}/SkuaTargets.cmake)
