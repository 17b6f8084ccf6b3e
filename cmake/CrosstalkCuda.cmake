# Finds nvcc, also off PATH, and enables CUDA. Sets CROSSTALK_HAVE_CUDA and CROSSTALK_CUDA_SUMMARY.
#
#   CROSSTALK_CUDA=AUTO   CUDA where nvcc is found and works, else CPU only (the default)
#   CROSSTALK_CUDA=ON     an error where nvcc is not found
#   CROSSTALK_CUDA=OFF    CPU only
#
# Another compiler: -DCMAKE_CUDA_COMPILER=... or $CUDACXX. Other architectures: -DCMAKE_CUDA_ARCHITECTURES=...
# or $CUDAARCHS. `native` is never the default: it fails where the GPU is not plugged in. CROSSTALK_FEW_ARCHITECTURES=ON,
# for continuous integration: one architecture, in a quarter of the time; every other compiles a few files
# (kernels/CMakeLists.txt) so that what it lacks is found.
option(CROSSTALK_FEW_ARCHITECTURES "Compile the CUDA kernels for Hopper alone, and a few of them for all GPUs" OFF)
set(CROSSTALK_CUDA "AUTO" CACHE STRING "Build the CUDA kernels: AUTO, ON or OFF")
set_property(CACHE CROSSTALK_CUDA PROPERTY STRINGS AUTO ON OFF)
string(TOUPPER "${CROSSTALK_CUDA}" cuda_wanted)
if(cuda_wanted STREQUAL "TRUE" OR cuda_wanted STREQUAL "YES" OR cuda_wanted STREQUAL "1")
  set(cuda_wanted "ON")
elseif(cuda_wanted STREQUAL "FALSE" OR cuda_wanted STREQUAL "NO" OR cuda_wanted STREQUAL "0")
  set(cuda_wanted "OFF")
elseif(NOT cuda_wanted MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CROSSTALK_CUDA is \"${CROSSTALK_CUDA}\"; it must be AUTO, ON or OFF.")
endif()

set(CROSSTALK_HAVE_CUDA FALSE)
set(CROSSTALK_CUDA_SUMMARY "off (CROSSTALK_CUDA=OFF)")

# What `nvcc --list-gpu-arch` knows out of Ampere (which Ada runs too), Hopper and both kinds of Blackwell (100: B200, 120:
# RTX 50), and PTX of Hopper, which the driver compiles for all others that come after it. Turing and older lack asynchronous
# copies and the tensor-core products that the kernels use.
function(crosstalk_default_cuda_architectures nvcc result)
  execute_process(COMMAND "${nvcc}" --list-gpu-arch OUTPUT_VARIABLE known RESULT_VARIABLE code ERROR_QUIET)
  set(list "")
  if(code EQUAL 0)
    foreach(architecture 80 90 100 120)
      if(known MATCHES "compute_${architecture}[^0-9]")
        list(APPEND list ${architecture}-real)
      endif()
    endforeach()
  endif()
  if("90-real" IN_LIST list)
    # Machine code with Hopper's own instructions, which no other GPU runs.
    list(TRANSFORM list REPLACE "^90-real$" "90a-real;90-virtual")
  else()
    list(REMOVE_ITEM list "80-real")
    list(APPEND list 80)  # without a suffix: machine code and PTX
  endif()
  set(${result} "${list}" PARENT_SCOPE)
endfunction()

if(NOT cuda_wanted STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER AND DEFINED ENV{CUDACXX})
    set(nvcc "$ENV{CUDACXX}")
  elseif(CMAKE_CUDA_COMPILER)
    set(nvcc "${CMAKE_CUDA_COMPILER}")
  else()
    set(nvcc "")
    foreach(root "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}")
      if(root AND NOT nvcc AND EXISTS "${root}/bin/nvcc")
        set(nvcc "${root}/bin/nvcc")
      endif()
    endforeach()
    if(NOT nvcc)
      find_program(CROSSTALK_NVCC nvcc HINTS ENV PATH PATHS /usr/local/cuda/bin /opt/cuda/bin)
      mark_as_advanced(CROSSTALK_NVCC)
      if(CROSSTALK_NVCC)
        set(nvcc "${CROSSTALK_NVCC}")
      endif()
    endif()
  endif()

  if(nvcc AND NOT IS_ABSOLUTE "${nvcc}")
    find_program(nvcc_path "${nvcc}" NO_CACHE)
    if(nvcc_path)
      set(nvcc "${nvcc_path}")
    endif()
  endif()

  set(nvcc_problem "")
  if(NOT nvcc)
    string(CONCAT nvcc_problem "nvcc was not found on PATH, in $CUDACXX, $CUDA_HOME/bin, $CUDA_PATH/bin or "
                               "/usr/local/cuda/bin")
  else()
    execute_process(COMMAND "${nvcc}" --version OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
      set(nvcc_problem "${nvcc} --version fails")
    endif()
  endif()

  if(nvcc_problem)
    if(cuda_wanted STREQUAL "ON")
      message(FATAL_ERROR "CROSSTALK_CUDA=ON, but ${nvcc_problem}. Install the CUDA toolkit, name its compiler by "
                          "-DCMAKE_CUDA_COMPILER=/path/to/nvcc, or build for the CPU with -DCROSSTALK_CUDA=OFF "
                          "(preset cpu).")
    endif()
    set(CROSSTALK_CUDA_SUMMARY "off: ${nvcc_problem}")
  else()
    set(CMAKE_CUDA_COMPILER "${nvcc}" CACHE FILEPATH "CUDA compiler")
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      if(CROSSTALK_FEW_ARCHITECTURES)
        set(architectures "90a-real")
      else()
        crosstalk_default_cuda_architectures("${nvcc}" architectures)
      endif()
      set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPUs to compile for")
    endif()
    if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
      set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "Host compiler behind nvcc")
    endif()
    enable_language(CUDA)
    # CMake 3.25.1 does not know that nvcc 13 speaks C++20.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    find_package(CUDAToolkit REQUIRED)  # targets CUDA::cudart_static, CUDA::cublas, CUDA::cublasLt
    set(CROSSTALK_HAVE_CUDA TRUE)
    set(CROSSTALK_CUDA_SUMMARY "nvcc ${CMAKE_CUDA_COMPILER_VERSION} (${CMAKE_CUDA_COMPILER}), architectures ${CMAKE_CUDA_ARCHITECTURES}")

    if(CROSSTALK_LINEINFO)  # costs no time, but a third of the kernels' size
      target_compile_options(crosstalk_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
    endif()
    # No fast-math.
    target_compile_options(crosstalk_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -Xcompiler=-Wall,-Wextra>)
    # Kernels lie compressed in the program, a third of its size; they are unpacked when first used.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      target_compile_options(crosstalk_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
    endif()
    if(CROSSTALK_WERROR)
      target_compile_options(crosstalk_flags INTERFACE
        "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Werror>")
    endif()
  endif()
endif()

# crosstalk_enable_cuda(TARGET CUDA a.cu ... [WITHOUT b.cpp ...] [LIBS CUDA::cublas ...]): with CUDA adds the .cu
# files, the runtime (static) and LIBS; without it adds the files of WITHOUT, stubs that throw "built without CUDA".
function(crosstalk_enable_cuda target)
  cmake_parse_arguments(ARG "" "" "CUDA;WITHOUT;LIBS" ${ARGN})
  if(NOT CROSSTALK_HAVE_CUDA)
    target_sources(${target} PRIVATE ${ARG_WITHOUT})
    return()
  endif()
  target_sources(${target} PRIVATE ${ARG_CUDA})
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_SEPARABLE_COMPILATION OFF)
  target_include_directories(${target} SYSTEM PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${CUDAToolkit_INCLUDE_DIRS}>)
  # Linked alone: C++ sources see no CUDA header, so that a compiler cache has their objects of a build without CUDA.
  foreach(library CUDA::cudart_static ${ARG_LIBS})
    target_link_libraries(${target} PUBLIC $<LINK_ONLY:${library}>)
  endforeach()
endfunction()
