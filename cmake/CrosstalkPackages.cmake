# Everything is found on the system; nothing is fetched. scripts/install-deps.sh installs it.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
set(CROSSTALK_BOOST Boost::program_options)
if(CROSSTALK_PORTABLE)
  # Into programs alone. A Python module shares the OpenMP and the C++ library of its process, of PyTorch say; auditwheel puts
  # Boost beside it, whose static library is not made for modules.
  set(program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libgomp.a OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(IS_ABSOLUTE "${gomp}")
    set_property(TARGET OpenMP::OpenMP_CXX PROPERTY INTERFACE_LINK_LIBRARIES
      "$<IF:${program},${gomp},${OpenMP_gomp_LIBRARY}>" Threads::Threads)
  endif()
  find_library(CROSSTALK_STATIC_BOOST libboost_program_options.a REQUIRED)
  set(CROSSTALK_BOOST "$<IF:${program},${CROSSTALK_STATIC_BOOST},Boost::program_options>")
  # For glibc 2.34: -static-libgcc asks for 2.35, and sections of libstdc++ that nothing calls for 2.36.
  target_link_options(crosstalk_flags INTERFACE "$<${program}:-static-libstdc++>" LINKER:--as-needed LINKER:--gc-sections)
endif()

# Header-only packages without a CMake file: found by one of their headers.
function(crosstalk_find_header variable header package)
  find_path(${variable} ${header})
  if(NOT ${variable})
    message(FATAL_ERROR "<${header}> was not found. It comes with the package ${package}: "
                        "`bash scripts/install-deps.sh` installs it, or set -D${variable}=/its/include/folder.")
  endif()
endfunction()
crosstalk_find_header(RANDOM123_INCLUDE Random123/philox.h librandom123-dev)
crosstalk_find_header(XXHASH_INCLUDE xxhash.h libxxhash-dev)
crosstalk_find_header(TOMLPLUSPLUS_INCLUDE toml++/toml.h libtomlplusplus-dev)
add_library(crosstalk_random123 INTERFACE)
target_include_directories(crosstalk_random123 SYSTEM INTERFACE "${RANDOM123_INCLUDE}")

if(CROSSTALK_TESTS)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  find_package(GTest REQUIRED)
  crosstalk_find_header(RAPIDCHECK_INCLUDE rapidcheck.h librapidcheck-dev)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
endif()
