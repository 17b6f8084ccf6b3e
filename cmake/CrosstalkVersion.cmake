# Stamps commit, compiler and flags into version.cpp (looked at in every build, written only if changed, so that a
# build without changes links nothing anew). Target crosstalk_version; header experiments/common/version.h.
#
# This file is also the script that each build runs, with the names below given by -D.
if(CMAKE_SCRIPT_MODE_FILE)
  set(CROSSTALK_COMMIT unknown)
  set(CROSSTALK_DIRTY false)
  find_program(GIT git)
  if(GIT)
    execute_process(COMMAND "${GIT}" rev-parse --show-toplevel WORKING_DIRECTORY "${SOURCE_DIR}"
      OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    file(REAL_PATH "${SOURCE_DIR}" source)
    if(NOT failed AND top)
      file(REAL_PATH "${top}" top)
    endif()
    # A release unpacked inside somebody's repository has no commit of its own.
    if(NOT failed AND top STREQUAL source)
      execute_process(COMMAND "${GIT}" rev-parse HEAD WORKING_DIRECTORY "${SOURCE_DIR}"
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
      if(NOT failed)
        set(CROSSTALK_COMMIT "${commit}")
        execute_process(COMMAND "${GIT}" diff --quiet HEAD WORKING_DIRECTORY "${SOURCE_DIR}"
          ERROR_QUIET RESULT_VARIABLE differs)
        if(NOT differs EQUAL 0)
          set(CROSSTALK_DIRTY true)
        endif()
      endif()
    endif()
  endif()
  configure_file("${SOURCE_DIR}/cmake/version.cpp.in" "${OUTPUT}" @ONLY)
  return()
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" CROSSTALK_BUILD_TYPE_UPPER)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${CROSSTALK_BUILD_TYPE_UPPER}}" CROSSTALK_CXX_FLAGS)
if(CROSSTALK_ARCH)
  string(APPEND CROSSTALK_CXX_FLAGS " -march=${CROSSTALK_ARCH}")
endif()
if(CROSSTALK_SANITIZE)
  string(APPEND CROSSTALK_CXX_FLAGS " -fsanitize=address,undefined")
endif()
set(CROSSTALK_VERSION_FILE "${CMAKE_BINARY_DIR}/version/version.cpp")
add_custom_target(crosstalk_stamp
  COMMAND "${CMAKE_COMMAND}"
    "-DSOURCE_DIR=${CMAKE_SOURCE_DIR}" "-DOUTPUT=${CROSSTALK_VERSION_FILE}" "-DCROSSTALK_VERSION=${PROJECT_VERSION}"
    "-DCROSSTALK_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    "-DCROSSTALK_BUILD_TYPE=${CMAKE_BUILD_TYPE}" "-DCROSSTALK_CXX_FLAGS=${CROSSTALK_CXX_FLAGS}"
    -P "${CMAKE_CURRENT_LIST_FILE}"
  BYPRODUCTS "${CROSSTALK_VERSION_FILE}"
  COMMENT "Looking at the commit" VERBATIM)
add_library(crosstalk_version STATIC "${CROSSTALK_VERSION_FILE}")
add_dependencies(crosstalk_version crosstalk_stamp)
target_include_directories(crosstalk_version PUBLIC "${CMAKE_SOURCE_DIR}")
