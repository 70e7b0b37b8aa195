# skua_library(NAME SOURCES ... DEPS ...)   a library of one folder, with the project's warnings
#              [PRECOMPILED common|grpc|none]  the headers that it gets precompiled (cmake/precompiled; default common)
# skua_program(NAME SOURCES ... DEPS ...)   an executable in bin/
# skua_test(NAME SOURCES ... DEPS ...)      a GoogleTest executable, registered with CTest
#           [THREADS]                       its code runs on several threads: ThreadSanitizer looks at it, too
#                                           (label `threads`, target `threaded_tests`)
#           [OPTIMIZED]                     it computes for long: compiled with the flags of what it tests
#           [LONG]                          it takes longest: it begins first, so that no processor waits for it at the end
#           [ELSEWHERE]                     not registered: it runs where its device is (tests/vm/run)
# skua_mutable(NAME OF ... DEPS ...)        libraries with their deliberate faults in (rpc/base/mutant.h), for the tests
#              [EXCEPT REGEX]                 that must find these; without the sources whose names match
# skua_position_independent(OUT NAMES ...)  libraries compiled once more, for a shared library
# skua_fuzzer(NAME SOURCES ... DEPS ...)    a libFuzzer target over one decoder (preset `fuzz`)
# skua_proto(NAME FILES ...)                protobuf and gRPC code from .proto files, without our warnings

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(SKUA_CCACHE ccache)
if(SKUA_CCACHE)
  # Paths count from the project's folder, so that two checkouts share what they have in common. The sloppiness is what
  # ccache asks for before it caches anything that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${SKUA_CCACHE})
endif()
find_program(SKUA_MOLD mold)

add_library(skua_flags INTERFACE)
target_include_directories(skua_flags INTERFACE ${PROJECT_SOURCE_DIR})
# -pthread for every target alike (gRPC asks for it): precompiled headers are shared between them.
target_compile_options(skua_flags INTERFACE -Wall -Wextra -Wconversion -Werror -pthread)
target_link_libraries(skua_flags INTERFACE Threads::Threads)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(skua_flags INTERFACE -msse4.2)
endif()
if(SKUA_MOLD)
  target_link_options(skua_flags INTERFACE -fuse-ld=mold)
endif()
if(SKUA_SANITIZE)
  # No program for users comes of these builds: all their libraries have the faults in, see skua_mutable.
  target_compile_definitions(skua_flags INTERFACE SKUA_WITH_MUTANTS)
  add_compile_options(-fsanitize=${SKUA_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SKUA_SANITIZE})
endif()
if(SKUA_BUILD_FUZZERS)
  # libFuzzer steers by the coverage of what it links. All of it: precompiled headers are shared, and so must be the flags.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these inside its own headers at -O2 when coroutines, variants or strings are inlined.
  target_compile_options(skua_flags INTERFACE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overread
                                              -Wno-stringop-overflow -Wno-array-bounds)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND SKUA_CCACHE)
  # ccache knows a precompiled header by its bytes; the time in it would make each of them another one.
  target_compile_options(skua_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++'s own stable_sort calls what libstdc++ calls deprecated.
  target_compile_options(skua_flags INTERFACE -Wno-deprecated-declarations)
endif()

# Precompiled headers: one compilation each, shared by all targets (they are compiled with the same flags).
option(SKUA_PRECOMPILE "Precompile the headers of cmake/precompiled" ON)
function(skua_precompiled kind)
  cmake_parse_arguments(ARG "" "" "FLAGS;DEPS" ${ARGN})
  add_library(skua_precompiled_${kind} OBJECT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/precompiled/empty.cc)
  target_link_libraries(skua_precompiled_${kind} PRIVATE skua_flags ${ARG_DEPS})
  target_compile_options(skua_precompiled_${kind} PRIVATE ${ARG_FLAGS})
  target_precompile_headers(skua_precompiled_${kind} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/precompiled/${kind}.h)
endfunction()

function(skua_use_precompiled name kind)
  if(SKUA_PRECOMPILE AND NOT kind STREQUAL "none")
    target_precompile_headers(${name} REUSE_FROM skua_precompiled_${kind})
  endif()
endfunction()

# Unity builds: several sources of a library or program are compiled as one, which saves a third of the time. Not in the preset
# `dev`, where a change costs one source.
option(SKUA_UNITY "Compile the sources of libraries and programs together" OFF)
if(SKUA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes a source that it finds in another one for a header.
  target_compile_options(skua_flags INTERFACE -Wno-subobject-linkage)
endif()
function(skua_use_unity name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${SKUA_UNITY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()
# Sources, in their folder's CMakeLists.txt, that have private names of other sources there, and so are compiled by themselves.
function(skua_not_in_unity)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Link-time optimization, of the libraries in folders that set SKUA_LTO_HERE, in programs that ask for it: four libraries work
# on a small call, and a twelfth of its instructions are for calls between them. Objects have both forms, which costs time to
# compile; all other programs, tests above all, link the plain one, which is much faster.
option(SKUA_LTO "Optimize the programs that users run at link time (GCC)" OFF)
if(SKUA_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT SKUA_SANITIZE)
  set(SKUA_LTO_USED ON)
  target_link_options(skua_flags INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:SKUA_LINK_TIME_OPTIMIZED>>,-flto=2,-fno-lto>)
endif()
function(skua_link_time_optimized name)
  if(SKUA_LTO_USED)
    set_target_properties(${name} PROPERTIES SKUA_LINK_TIME_OPTIMIZED ON)
    target_compile_options(${name} PRIVATE -flto -ffat-lto-objects)
    target_link_options(${name} PRIVATE -O2)
  endif()
endfunction()

# How GoogleTest executables are compiled. What they test keeps its own flags: optimising most tests takes longer than they run.
set(SKUA_TEST_FLAGS -O0)
if(SKUA_SANITIZE MATCHES "undefined")
  # Checks in the tests themselves take a fifth of the time to compile them, and find little.
  list(APPEND SKUA_TEST_FLAGS -fno-sanitize=undefined)
endif()
if(SKUA_BUILD_FUZZERS)
  list(APPEND SKUA_TEST_FLAGS -fno-sanitize=fuzzer-no-link)
endif()

function(skua_library name)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED common)
  endif()
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC skua_flags ${ARG_DEPS})
    skua_use_precompiled(${name} ${ARG_PRECOMPILED})
    skua_use_unity(${name})
    if(SKUA_LTO_USED AND SKUA_LTO_HERE)
      target_compile_options(${name} PRIVATE -flto -ffat-lto-objects)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE skua_flags ${ARG_DEPS})
  endif()
endfunction()

# Sets `out` to the libraries NAMES, with all of ours that they need, compiled once more for a shared library. The ones that
# programs link stay as they are: position-independent code for a shared library is slower.
function(skua_position_independent out)
  set(copies)
  foreach(name ${ARGN})
    if(NOT TARGET ${name} OR NOT name MATCHES "^skua_" OR name STREQUAL "skua_flags")
      list(APPEND copies ${name})
      continue()
    endif()
    get_target_property(is_independent ${name} POSITION_INDEPENDENT_CODE)
    if(is_independent)
      list(APPEND copies ${name})
      continue()
    endif()
    if(NOT TARGET ${name}_pic)
      skua_copy_position_independent(${name})
    endif()
    list(APPEND copies ${name}_pic)
  endforeach()
  set(${out} ${copies} PARENT_SCOPE)
endfunction()

function(skua_copy_position_independent name)
  get_target_property(folder ${name} SOURCE_DIR)
  get_target_property(sources ${name} SOURCES)
  get_target_property(needs ${name} LINK_LIBRARIES)
  get_target_property(definitions ${name} COMPILE_DEFINITIONS)
  skua_position_independent(needs_independent ${needs})
  set(paths)
  foreach(source ${sources})
    set(path ${folder}/${source})
    list(APPEND paths ${path})
    get_source_file_property(alone ${path} DIRECTORY ${folder} SKIP_UNITY_BUILD_INCLUSION)
    if(alone)
      skua_not_in_unity(${path})
    endif()
  endforeach()
  add_library(${name}_pic STATIC EXCLUDE_FROM_ALL ${paths})
  target_link_libraries(${name}_pic PUBLIC ${needs_independent})
  if(definitions)
    target_compile_definitions(${name}_pic PRIVATE ${definitions})
  endif()
  set_target_properties(${name}_pic PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  skua_use_unity(${name}_pic)
endfunction()

function(skua_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE skua_flags ${ARG_DEPS})
  skua_use_precompiled(${name} common)
  skua_use_unity(${name})
endfunction()

function(skua_test name)
  cmake_parse_arguments(ARG "ELSEWHERE;LONG;OPTIMIZED;THREADS" "TIMEOUT" "SOURCES;DEPS;ARGS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(SKUA_SANITIZE)
    # Several times slower, and beside tests that go first.
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE skua_flags ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_OPTIMIZED)
    skua_use_precompiled(${name} common)
  else()
    target_compile_options(${name} PRIVATE ${SKUA_TEST_FLAGS})
    skua_use_precompiled(${name} test)
  endif()
  skua_use_unity(${name})
  if(ARG_ELSEWHERE)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LONG)
    set_tests_properties(${name} PROPERTIES COST 60)
  endif()
  if(ARG_THREADS)
    set_tests_properties(${name} PROPERTIES LABELS threads)
    if(NOT TARGET threaded_tests)
      add_custom_target(threaded_tests)
    endif()
    add_dependencies(threaded_tests ${name})
  endif()
endfunction()

# One library of the sources of several, compiled once more. Under a sanitizer it is just these libraries: there, all have the
# faults in, and compiling takes longest.
function(skua_mutable name)
  cmake_parse_arguments(ARG "" "EXCEPT" "OF;DEPS" ${ARGN})
  if(SKUA_SANITIZE)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_OF} ${ARG_DEPS})
    return()
  endif()
  set(sources)
  foreach(library ${ARG_OF})
    get_target_property(folder ${library} SOURCE_DIR)
    get_target_property(of_library ${library} SOURCES)
    list(TRANSFORM of_library PREPEND ${folder}/)
    list(APPEND sources ${of_library})
  endforeach()
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "/(${ARG_EXCEPT})[^/]*$")
  endif()
  add_library(${name} STATIC ${sources})
  target_compile_definitions(${name} PUBLIC SKUA_WITH_MUTANTS)
  target_link_libraries(${name} PUBLIC skua_flags ${ARG_DEPS})
  skua_use_unity(${name})
endfunction()

# They land in bin/fuzzers; target `fuzzers` builds them all.
function(skua_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT SKUA_BUILD_FUZZERS)
    return()
  endif()
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  add_dependencies(fuzzers ${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/fuzzers)
  target_link_libraries(${name} PRIVATE skua_flags ${ARG_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

function(skua_proto name)
  cmake_parse_arguments(ARG "" "" "FILES;DEPS" ${ARGN})
  find_program(SKUA_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
  set(generated)
  foreach(proto ${ARG_FILES})
    file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR} ${proto})
    string(REGEX REPLACE "\\.proto$" "" stem ${CMAKE_BINARY_DIR}/generated/${relative})
    set(outputs ${stem}.pb.cc ${stem}.pb.h ${stem}.grpc.pb.cc ${stem}.grpc.pb.h)
    add_custom_command(OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
      COMMAND protobuf::protoc --cpp_out=${CMAKE_BINARY_DIR}/generated
              --grpc_out=${CMAKE_BINARY_DIR}/generated
              --plugin=protoc-gen-grpc=${SKUA_GRPC_PLUGIN}
              -I ${PROJECT_SOURCE_DIR} ${proto}
      DEPENDS ${proto} VERBATIM)
    list(APPEND generated ${stem}.pb.cc ${stem}.grpc.pb.cc)
  endforeach()
  # Target `generated`: only the sources. clang-tidy needs no more.
  if(NOT TARGET generated)
    add_custom_target(generated)
  endif()
  add_custom_target(${name}_generated DEPENDS ${generated})
  add_dependencies(generated ${name}_generated)
  add_library(${name} STATIC ${generated})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_dependencies(${name} ${name}_generated)
  # Nothing of ours, nothing to step through, and the control plane's messages are few: as little as needed.
  target_compile_options(${name} PRIVATE -O1 -g0)
  if(SKUA_SANITIZE)
    # protobuf itself is not instrumented either.
    target_compile_options(${name} PRIVATE -fno-sanitize=all -O0)
  endif()
  target_include_directories(${name} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf Threads::Threads ${ARG_DEPS})
endfunction()
