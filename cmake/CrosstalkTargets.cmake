# crosstalk_library(NAME SOURCES ... LIBS ...): a static library with the project's flags.
# crosstalk_library(NAME LIGHT SOURCES ... LIBS ...): one that arranges work and does little of it: compiled at -O1, which takes
#   a third of the compiler's time less. A source that computes asks for -O3 by its own COMPILE_OPTIONS.
# crosstalk_cuda_library(NAME CUDA *.cu ... [WITHOUT *.cpp ...] [SOURCES ...] [LIBS ...] [CUDA_LIBS ...]): the same
#   with device code; WITHOUT are the stubs of a CPU-only build, CUDA_LIBS for example CUDA::cublas.
# crosstalk_test(NAME SOURCES ... LIBS ... [LABELS ...]): a GoogleTest program, one ctest entry a test case,
#   named NAME.Suite.Case.
# crosstalk_test(NAME ... PARTS N): N ctest entries, NAME.1 to NAME.N, for the program's CPU cases, which they take in turn,
#   and one, NAME.Cuda, for its cases with Cuda in their name: for programs of many small cases, whose start would cost more
#   than they do.
#   Labels: `slow` is left out of the default suite, `gpu` needs a GPU and is skipped without one.
# crosstalk_unity(RESULT PARTS SOURCES...): a unity build. Sets RESULT to PARTS files that include all SOURCES between them:
#   what many small files share, headers and instances of templates, is then compiled PARTS times. A source's part depends on
#   its name alone, so that a new one changes one part. Sources with compile options of their own stay as they are, and all do
#   under -DCROSSTALK_UNITY=OFF. Names in the unnamed namespaces of SOURCES must differ.
include(GoogleTest)

# What an entry may take, in seconds: none takes more than a minute on a quiet core, and ten times that is left to a slow
# machine. With sanitizers it is up to ten times as long.
set(CROSSTALK_TEN_MINUTES 600)
if(CROSSTALK_SANITIZE)
  set(CROSSTALK_TEN_MINUTES 6000)
endif()

function(crosstalk_unity result parts)
  if(NOT CROSSTALK_UNITY)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(alone "")
  set(used "")
  foreach(source ${ARGN})
    get_filename_component(source "${source}" ABSOLUTE)
    get_property(options SOURCE "${source}" PROPERTY COMPILE_OPTIONS)
    get_property(definitions SOURCE "${source}" PROPERTY COMPILE_DEFINITIONS)
    file(STRINGS "${source}" asks REGEX "CROSSTALK_SOURCE_DIR" LIMIT_COUNT 1)
    if(options OR definitions OR asks)
      list(APPEND alone "${source}")
      continue()
    endif()
    get_filename_component(name "${source}" NAME_WE)
    string(MD5 hash "${name}")
    string(SUBSTRING "${hash}" 0 6 digits)
    math(EXPR part "0x${digits} % ${parts}")
    # From the root, not from this machine's folder: a compiler cache then serves all checkouts.
    file(RELATIVE_PATH source "${CMAKE_SOURCE_DIR}" "${source}")
    string(APPEND part_${part} "#include \"${source}\"\n")
    list(APPEND used ${part})
  endforeach()
  list(REMOVE_DUPLICATES used)
  foreach(part ${used})
    set(unity "${CMAKE_CURRENT_BINARY_DIR}/${result}_${part}.cpp")
    file(CONFIGURE OUTPUT "${unity}" CONTENT "// Made by crosstalk_unity() (cmake/CrosstalkTargets.cmake).\n${part_${part}}" @ONLY)
    list(APPEND alone "${unity}")
  endforeach()
  set(${result} ${alone} PARENT_SCOPE)
endfunction()

function(crosstalk_library name)
  cmake_parse_arguments(ARG "LIGHT" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_LIGHT AND CMAKE_BUILD_TYPE STREQUAL "Release")
    # Products and sums are fused as at -O3, so that numbers have the same bits.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-O1;-fexpensive-optimizations>
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-O1>)
  endif()
  target_link_libraries(${name} PUBLIC crosstalk_flags ${ARG_LIBS})
endfunction()

function(crosstalk_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;CUDA;WITHOUT;CUDA_LIBS" ${ARGN})
  crosstalk_library(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
  crosstalk_enable_cuda(${name} CUDA ${ARG_CUDA} WITHOUT ${ARG_WITHOUT} LIBS ${ARG_CUDA_LIBS})
endfunction()

function(crosstalk_test name)
  if(NOT CROSSTALK_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "PARTS" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE crosstalk_flags ${ARG_LIBS} GTest::gtest_main ${RAPIDCHECK_LIBRARY})
  # Only the files that ask for the folder get it: the others compile to the same in any folder, so that a compiler cache
  # serves all checkouts.
  foreach(source IN LISTS ARG_SOURCES)
    file(STRINGS "${source}" asks REGEX "CROSSTALK_SOURCE_DIR" LIMIT_COUNT 1)
    if(asks)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS CROSSTALK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
  endforeach()
  if(ARG_PARTS)
    foreach(part RANGE 1 ${ARG_PARTS})
      math(EXPR index "${part} - 1")
      add_test(NAME ${name}.${part} COMMAND ${name} --gtest_brief=1 --gtest_filter=-*Cuda*)
      set_tests_properties(${name}.${part} PROPERTIES TIMEOUT ${CROSSTALK_TEN_MINUTES} ENVIRONMENT
        "OMP_NUM_THREADS=1;GTEST_TOTAL_SHARDS=${ARG_PARTS};GTEST_SHARD_INDEX=${index}")
    endforeach()
    add_test(NAME ${name}.Cuda COMMAND ${name} --gtest_brief=1 --gtest_filter=*Cuda*)
    set_tests_properties(${name}.Cuda PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1" TIMEOUT ${CROSSTALK_TEN_MINUTES}
      LABELS gpu SKIP_REGULAR_EXPRESSION "SKIPPED")
    return()
  endif()
  # One OpenMP thread: waiting threads spin, and on a busy machine tiny tests then take 100 times as long.
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}." TEST_LIST ${name}_CASES NO_PRETTY_VALUES
    PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1" TIMEOUT ${CROSSTALK_TEN_MINUTES})
  if(ARG_LABELS)  # gtest_discover_tests loses all but the first of several labels
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
    file(CONFIGURE OUTPUT "${file}" CONTENT "if(@name@_CASES)
  set_tests_properties(\${@name@_CASES} PROPERTIES LABELS \"@ARG_LABELS@\")\nendif()\n" @ONLY)
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
  endif()
endfunction()
