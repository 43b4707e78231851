# SPDX-License-Identifier: BSD-3-Clause
# perdure_transactional(TARGET): __transaction_atomic in the C and C++ sources of TARGET is Perdure's, durable for what is
# persistent. Needs gcc, and both languages enabled, because the library that is linked is C++. A shared library is not
# linked with it: there is one runtime in a program, and the program brings it.
function(perdure_transactional target)
  foreach(language C CXX)
    if(CMAKE_${language}_COMPILER_LOADED AND NOT CMAKE_${language}_COMPILER_ID STREQUAL "GNU")
      message(FATAL_ERROR "perdure_transactional(${target}): ${CMAKE_${language}_COMPILER} has no -fgnu-tm; use gcc")
    endif()
  endforeach()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-fgnu-tm>)
  get_target_property(type ${target} TYPE)
  if(type MATCHES "^(SHARED|MODULE|OBJECT)_LIBRARY$")
    target_include_directories(${target} PRIVATE
      $<TARGET_PROPERTY:perdure::perdure,INTERFACE_INCLUDE_DIRECTORIES>)
  else()
    target_link_libraries(${target} PRIVATE perdure::perdure)
  endif()
  # Links the library once more behind everything else: shared libraries may need parts of it that the program does not.
  target_link_options(${target} PRIVATE -fgnu-tm
    -B${CMAKE_CURRENT_FUNCTION_LIST_DIR}/gcc -L$<TARGET_FILE_DIR:perdure::perdure>)
endfunction()
