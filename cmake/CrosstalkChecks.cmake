# Checks of the sources themselves: who may include whom, that every header compiles alone, that docs/extending.md is true.
if(NOT CROSSTALK_TESTS)
  return()
endif()

add_test(NAME layering
  COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/cmake/check_layering.py" "${CMAKE_SOURCE_DIR}")
add_test(NAME layering.self_test
  COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/cmake/check_layering.py" --self-test)
# The examples of docs/extending.md, applied to a copy of the sources; then built and run: minutes.
add_test(NAME walkthrough.applies
  COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/scripts/check-walkthrough.py" --apply "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
add_test(NAME walkthrough
  COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/scripts/check-walkthrough.py" "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
set_tests_properties(walkthrough PROPERTIES LABELS slow TIMEOUT 1800)

# Users build without tests (quickstart.sh --minimal, the portable preset): no file may ask for a target of them.
add_test(NAME configures_without_tests
  COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_SOURCE_DIR}" -B "${CMAKE_BINARY_DIR}/without_tests" -G "${CMAKE_GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" -DCROSSTALK_TESTS=OFF -DCROSSTALK_CUDA=OFF)

# Target header_check: every header compiles alone. A source that includes a header before anything else shows it of that
# header; each other header gets a file that includes it and nothing else. The test `layering` asks for `#pragma once`.
set(header_folders kernels models tasks results plots experiments)
list(TRANSFORM header_folders APPEND "/*.h" OUTPUT_VARIABLE header_globs)
list(TRANSFORM header_folders APPEND "/*.cpp" OUTPUT_VARIABLE source_globs)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" ${header_globs})
file(GLOB_RECURSE first_includers CONFIGURE_DEPENDS ${source_globs})
list(FILTER first_includers EXCLUDE REGEX "fuzz|/no_cuda\\.cpp$")  # not part of every build
set(shown "")
foreach(source ${first_includers})
  file(STRINGS "${source}" include REGEX "^ *# *include " LIMIT_COUNT 1)
  if(include MATCHES "\"(.*)\"")
    list(APPEND shown "${CMAKE_MATCH_1}")
  endif()
endforeach()
list(REMOVE_ITEM headers ${shown})
set(header_sources "")
foreach(header ${headers})
  set(source "${CMAKE_BINARY_DIR}/header_check/${header}.cpp")
  set(text "#include \"${header}\"\n")
  file(CONFIGURE OUTPUT "${source}" CONTENT "${text}" @ONLY)
  list(APPEND header_sources "${source}")
endforeach()
if(header_sources)
  add_library(header_check OBJECT ${header_sources})
  target_compile_options(header_check PRIVATE -O0)
  target_include_directories(header_check SYSTEM PRIVATE
    "${XXHASH_INCLUDE}" "${TOMLPLUSPLUS_INCLUDE}" "${RAPIDCHECK_INCLUDE}")
  target_link_libraries(header_check PRIVATE crosstalk_flags crosstalk_random123 Eigen3::Eigen fmt::fmt
    nlohmann_json::nlohmann_json Boost::program_options OpenMP::OpenMP_CXX GTest::gtest)
endif()
