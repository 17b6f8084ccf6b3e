# With CROSSTALK_FUZZ the libraries are instrumented for the libFuzzer program fuzz_any (experiments/CMakeLists.txt), under
# AddressSanitizer and UndefinedBehaviorSanitizer, and only it can be linked. scripts/fuzz.sh configures, builds and runs.
option(CROSSTALK_FUZZ "Build the fuzz target (needs clang)" OFF)
if(CROSSTALK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "CROSSTALK_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++, or run scripts/fuzz.sh")
  endif()
  add_compile_options(-g -O2 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
