# SPDX-License-Identifier: BSD-3-Clause
# What the rooms' CMakeLists.txt are written with.

# perdure_sources(<out> <folder>...): the sources in these folders, except tests'.
function(perdure_sources out)
  set(all "")
  foreach(folder IN LISTS ARGN)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
    list(APPEND all ${sources})
  endforeach()
  list(FILTER all EXCLUDE REGEX "_test\\.cc$")
  set(${out} ${all} PARENT_SCOPE)
endfunction()

# Several sources are compiled as one where CMAKE_UNITY_BUILD says so: reading headers takes most of the time. A source whose names
# collide with another's stays apart.
function(perdure_keep_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# perdure_library(<name> FROM <folder>... [EXCEPT <regex>] [HEADERS_OF <library>]): a static library of these folders' sources.
# The headers of C++ that most sources include are precompiled: reading them was a third of the time that sources took. With
# HEADERS_OF, it uses what another library has precompiled.
function(perdure_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCEPT;HEADERS_OF" "FROM")
  perdure_sources(sources ${arg_FROM})
  if(arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCEPT}")
  endif()
  add_library(${name} STATIC ${sources})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(arg_HEADERS_OF)
    target_precompile_headers(${name} REUSE_FROM ${arg_HEADERS_OF})
  else()
    target_precompile_headers(${name} PRIVATE <algorithm> <array> <atomic> <chrono> <functional> <memory> <mutex> <optional>
                              <span> <string> <string_view> <thread> <utility> <vector>)
  endif()
endfunction()

# perdure_check_headers(<library> FROM <folder>...): with PERDURE_CHECK_HEADERS, every header there is compiled alone.
function(perdure_check_headers library)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FROM")
  if(NOT PERDURE_CHECK_HEADERS)
    return()
  endif()
  set(units "")
  foreach(folder IN LISTS arg_FROM)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "_test[a-z_]*\\.h$")
    foreach(header IN LISTS headers)
      set(unit ${PROJECT_BINARY_DIR}/headers_alone/${header}.cc)
      file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"  // again: the guard\n")
      list(APPEND units ${unit})
    endforeach()
  endforeach()
  add_library(${library}_headers_alone OBJECT ${units})
  set_target_properties(${library}_headers_alone PROPERTIES UNITY_BUILD OFF)  # else only the first of several is alone
  target_compile_options(${library}_headers_alone PRIVATE -O0 -g0)
  target_link_libraries(${library}_headers_alone PRIVATE ${library})
endfunction()

# perdure_tests(<folder> [PROVE] [ONE_THREAD <name>...] [LONG <name>...] [LINK <target>...] [ALONE <target>]
#               [ONE_THREAD_CASES <pattern>...] [LONG_CASES <pattern>...] [DEFINE <definition>...] [NEEDS <target>...] [APART <name>...]):
# the tests <name>_test.cc of a folder, in one executable, whose cases ctest calls "<folder>/Suite.Case". <name>_slow_test.cc
# and <name>_tool_test.cc, which judge processes, make executables and labels of their own, slow and tool; all others are
# quick. PROVE: their label is prove, and ./do test leaves them to ./do prove. ALONE: what they link in place of the library. ONE_THREAD: what ThreadSanitizer has nothing to
# say of. LONG: what no sanitizer repeats. ..._CASES: the same of single cases, by the patterns of --gtest_filter. APART: see perdure_keep_apart. Cases find the commands in the folder that the environment variable PERDURE_BIN
# names.
function(perdure_tests folder)
  if(NOT PERDURE_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROVE" "ALONE" "ONE_THREAD;LONG;ONE_THREAD_CASES;LONG_CASES;LINK;DEFINE;NEEDS;APART")
  set(link ${arg_LINK} perdure_papers perdure::crash perdure_interleave)
  if(arg_ALONE)
    set(link ${arg_ALONE})
  endif()
  cmake_path(APPEND CMAKE_CURRENT_SOURCE_DIR ${folder} OUTPUT_VARIABLE path)
  cmake_path(NORMAL_PATH path)
  file(GLOB files CONFIGURE_DEPENDS ${path}/*_test.cc)
  set(left_out "")
  set(cases_left_out "")
  if(PERDURE_SANITIZE)
    list(APPEND left_out ${arg_LONG})
    list(APPEND cases_left_out ${arg_LONG_CASES})
  endif()
  if(PERDURE_SANITIZE STREQUAL "thread")
    list(APPEND left_out ${arg_ONE_THREAD})
    list(APPEND cases_left_out ${arg_ONE_THREAD_CASES})
  endif()
  list(JOIN cases_left_out ":" cases_left_out)
  foreach(name IN LISTS arg_APART)
    perdure_keep_apart(${path}/${name}_test.cc)
  endforeach()
  foreach(name IN LISTS left_out)
    list(FILTER files EXCLUDE REGEX "/${name}_test\\.cc$")
  endforeach()
  file(RELATIVE_PATH prefix ${PROJECT_SOURCE_DIR} ${path})
  string(REGEX REPLACE "^perdure/|/$" "" prefix ${prefix})

  set(of_tool ${files})
  list(FILTER of_tool INCLUDE REGEX "_tool_test\\.cc$")
  set(slow ${files})
  list(FILTER slow INCLUDE REGEX "_slow_test\\.cc$")
  set(quick ${files})
  list(FILTER quick EXCLUDE REGEX "_(tool|slow)_test\\.cc$")
  if(NOT PERDURE_TOOL)
    set(of_tool "")
  endif()
  if(PERDURE_SANITIZE)  # They take too long there, and are not run.
    set(slow "")
  endif()
  string(REPLACE "/" "_" target ${prefix})
  foreach(label quick slow of_tool)
    if(${label})
      set(name ${target}_test)
      string(REPLACE "of_tool" "tool" kind ${label})
      if(NOT kind STREQUAL "quick")
        set(name ${target}_${kind}_test)
      endif()
      if(arg_PROVE)
        set(kind prove)
      endif()
      perdure_test_executable(${name} ${prefix} ${kind} "${${label}}" "${link}" "${arg_DEFINE}" "${arg_NEEDS}" "-${cases_left_out}")
    endif()
  endforeach()
endfunction()

function(perdure_test_executable target prefix label files link define needs filter)
  # Compiling is most of what tests cost: optimized, they take up to twice as long to compile, with AddressSanitizer's checks
  # four times. The library that they call is optimized.
  set(test_optimization -O0)
  add_executable(${target} ${files})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests UNITY_BUILD_BATCH_SIZE 4)
  target_compile_options(${target} PRIVATE ${test_optimization})
  target_compile_definitions(${target} PRIVATE ${define})
  # The standard library first: from an archive whatever defines a name is taken, also std::string's functions that were not
  # inlined; with them would come parts of the library that open an address space when they are loaded.
  target_link_options(${target} PRIVATE -lstdc++)
  target_link_libraries(${target} PRIVATE ${link} PkgConfig::GMOCK GTest::gtest_main)
  # Every test reads the same headers of GoogleTest and of the standard library first.
  if(NOT TARGET perdure_test_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cc CONTENT "")
    add_library(perdure_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cc)
    target_compile_options(perdure_test_headers PRIVATE ${test_optimization})
    target_link_libraries(perdure_test_headers PRIVATE PkgConfig::GMOCK GTest::gtest Threads::Threads)
    target_precompile_headers(perdure_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <filesystem> <fstream> <thread>
                              <random>)
  endif()
  target_precompile_headers(${target} REUSE_FROM perdure_test_headers)
  foreach(each IN LISTS needs)
    if(TARGET ${each})
      add_dependencies(${target} ${each})
    endif()
  endforeach()
  set(bin PERDURE_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  if(NOT PERDURE_SANITIZE MATCHES "address")
    gtest_discover_tests(${target} TEST_PREFIX ${prefix}/ TEST_FILTER "${filter}" DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${label} TIMEOUT 900 ENVIRONMENT ${bin})
    return()
  endif()
  # With AddressSanitizer a program takes a quarter of a second to start, longer than most cases: some ten share a process.
  # (With ThreadSanitizer it starts at once, and one that runs many cases takes up ten gigabytes.)
  list(LENGTH files shards)
  math(EXPR shards "2 * ${shards}")
  foreach(shard RANGE 1 ${shards})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${target}/${shard} COMMAND ${target} --gtest_brief=1 --gtest_filter=${filter})
    set_tests_properties(${target}/${shard} PROPERTIES LABELS ${label} TIMEOUT 900
      ENVIRONMENT "${bin};GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# perdure_lab_sources(<file>... [APART <name>...]) and perdure_lab_peer(<target> <file>...): sources of perdure-lab; those of a peer where its
# library is there. (Peers register themselves, so they are objects, not archives.) With CMAKE_UNITY_BUILD a folder's are compiled as one,
# but peers, and those whose names collide with others.
function(perdure_lab_sources)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" APART)
  target_sources(perdure_lab_parts PRIVATE ${arg_UNPARSED_ARGUMENTS})
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(GET source STEM name)
    if(NOT name IN_LIST arg_APART)
      cmake_path(GET source PARENT_PATH folder)
      cmake_path(NORMAL_PATH folder)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(MAKE_C_IDENTIFIER "${folder}" group)
      set_source_files_properties(${source} TARGET_DIRECTORY perdure_lab_parts PROPERTIES UNITY_GROUP "${group}")
    endif()
  endforeach()
endfunction()
function(perdure_lab_peer target)
  if(TARGET ${target})
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(perdure_lab_parts PRIVATE ${ARGN})
    target_link_libraries(perdure_lab_parts PUBLIC ${target})
  endif()
endfunction()
