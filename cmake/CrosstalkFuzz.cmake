# crosstalk_fuzz_target(NAME SOURCES ... LIBS ... [DEFINE ...]): a libFuzzer program under AddressSanitizer and
#   UndefinedBehaviorSanitizer. With CROSSTALK_FUZZ the libraries are instrumented too, and only fuzz targets can be linked;
#   without it nothing is made. scripts/fuzz.sh configures, builds and runs.
option(CROSSTALK_FUZZ "Build the fuzz targets (needs clang)" OFF)
if(CROSSTALK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "CROSSTALK_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++, or run scripts/fuzz.sh")
  endif()
  add_compile_options(-g -O2 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

function(crosstalk_fuzz_target name)
  if(NOT CROSSTALK_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;DEFINE" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE crosstalk_flags ${ARG_LIBS})
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINE})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()
