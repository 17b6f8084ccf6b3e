# crosstalk_fuzz_target(NAME SOURCES ... LIBS ... [DEFINE ...]): a libFuzzer program under AddressSanitizer and
#   UndefinedBehaviorSanitizer. It compiles its sources itself: those of the libraries are not instrumented.
#   Nothing without CROSSTALK_FUZZ; scripts/fuzz.sh configures with it, builds and runs.
option(CROSSTALK_FUZZ "Build the fuzz targets (needs clang)" OFF)
if(CROSSTALK_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "CROSSTALK_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++, or run scripts/fuzz.sh")
endif()

function(crosstalk_fuzz_target name)
  if(NOT CROSSTALK_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;DEFINE" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE crosstalk_flags ${ARG_LIBS})
  target_compile_definitions(${name} PRIVATE _GLIBCXX_ASSERTIONS ${ARG_DEFINE})
  set(flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_compile_options(${name} PRIVATE -g -O2 ${flags})
  target_link_options(${name} PRIVATE ${flags})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()
