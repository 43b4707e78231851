# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where. Rooms install their own programs; here is what a program that uses the library needs.
# Components: dev (library, headers, package files, perdure-gcc), crash (the explorer, as a library), tool (perdure), lab
# (perdure-lab), sqlite (the extension). What was not built is left out, so that a part can be built and installed alone.
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/perdure)

install(TARGETS perdure EXPORT perdure-targets)
install(EXPORT perdure-targets NAMESPACE perdure:: DESTINATION ${package_dir})
install(TARGETS perdure_crash EXPORT perdure-crash-targets OPTIONAL COMPONENT crash)
install(EXPORT perdure-crash-targets NAMESPACE perdure:: DESTINATION ${package_dir} COMPONENT crash)
# install_headers(<component> <headers>...): these, and what they include, under include/perdure/.
function(install_headers component)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
  install(CODE "
    set(source [[${PROJECT_SOURCE_DIR}]])
    set(build [[${PROJECT_BINARY_DIR}]])
    set(include_dir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
    set(headers [[${headers}]])
    include([[${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake]])" COMPONENT ${component})
endfunction()
install_headers(dev perdure/*.h)
install_headers(crash sim/crash/explorer.h sim/crash/suite.h)

configure_package_config_file(cmake/perdure-config.cmake.in perdure-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(perdure-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/perdure-config.cmake ${PROJECT_BINARY_DIR}/perdure-config-version.cmake
        cmake/perdure-transactions.cmake DESTINATION ${package_dir})
install(FILES cmake/gcc/libitm.spec DESTINATION ${package_dir}/gcc)

# The prefix as the .pc files see it, so that an installed tree can be moved.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(name perdure perdure-tm)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# perdure-gcc and perdure-g++ are one script: one for this build tree, one for an installed tree, wherever it is moved.
set(perdure_gcc_include "'${PROJECT_SOURCE_DIR}'")
set(perdure_gcc_lib "'${PROJECT_BINARY_DIR}/lib'")
set(perdure_gcc_specs "'${PROJECT_SOURCE_DIR}/cmake/gcc'")
configure_file(cmake/perdure-gcc.in perdure-gcc @ONLY)
file(CREATE_LINK perdure-gcc ${PROJECT_BINARY_DIR}/perdure-g++ SYMBOLIC)
set(bin ${CMAKE_INSTALL_FULL_BINDIR})
file(RELATIVE_PATH perdure_gcc_include ${bin} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH perdure_gcc_lib ${bin} ${CMAKE_INSTALL_FULL_LIBDIR})
set(perdure_gcc_include "$here/${perdure_gcc_include}")
set(perdure_gcc_lib "$here/${perdure_gcc_lib}")
set(perdure_gcc_specs "$lib/cmake/perdure/gcc")
configure_file(cmake/perdure-gcc.in install/perdure-gcc @ONLY)
foreach(name perdure-gcc perdure-g++)
  install(PROGRAMS ${PROJECT_BINARY_DIR}/install/perdure-gcc DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ${name})
endforeach()
