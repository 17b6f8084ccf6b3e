# Options, warnings and optimisation flags, on one interface target.
option(CROSSTALK_TESTS "Build the tests" ON)
option(CROSSTALK_UNITY "Compile small files several at a time; OFF: each alone, to see that it includes what it uses" ON)
option(CROSSTALK_LINEINFO "Kernels that profilers and sanitizers can name the lines of" OFF)
option(CROSSTALK_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(CROSSTALK_PORTABLE "Link all but the C library into the program, for machines without the build's libraries" OFF)
option(CROSSTALK_PYTHON_MODULE "Build the Python package's module (needs nanobind; pip install . sets it)" OFF)
set(CROSSTALK_ARCH "native" CACHE STRING "Value of -march; empty for the compiler's default")

# Warnings are errors with the compilers that the project is developed with. A newer one may know warnings that
# nobody has seen yet: there they are only shown, so that a user's first build does not end at them.
set(werror_default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(werror_default ON)
endif()
option(CROSSTALK_WERROR "Treat warnings as errors" ${werror_default})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# One tree for the program and for the Python module: objects of position-dependent code with thread_local do not link
# into a shared library. Hidden symbols keep calls within a library direct, so that nothing gets slower.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # an installed program finds cuBLAS where the build found it
# Paths within the checkout are cached relative to it: all checkouts and presets share what they compile alike.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${CMAKE_SOURCE_DIR};CCACHE_NOHASHDIR=true;${CCACHE_PROGRAM}")
    endif()
  endforeach()
endif()

add_library(crosstalk_flags INTERFACE)
target_include_directories(crosstalk_flags INTERFACE "${CMAKE_SOURCE_DIR}")
# Eigen's own threads change the bits of a product with their number.
target_compile_definitions(crosstalk_flags INTERFACE EIGEN_DONT_PARALLELIZE)
target_compile_options(crosstalk_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow>)
if(CROSSTALK_WERROR)
  target_compile_options(crosstalk_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CROSSTALK_ARCH)
  target_compile_options(crosstalk_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${CROSSTALK_ARCH}>)
  # GCC 12's own AVX-512 headers trip this warning wherever Eigen is used (GCC bug 105593).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(crosstalk_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()
if(CROSSTALK_PORTABLE)  # cmake/CrosstalkPackages.cmake chooses static libraries
  target_compile_definitions(crosstalk_flags INTERFACE FMT_HEADER_ONLY)
endif()
if(CROSSTALK_SANITIZE)
  target_compile_options(crosstalk_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer>)
  target_compile_definitions(crosstalk_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(crosstalk_flags INTERFACE -fsanitize=address,undefined)
endif()
