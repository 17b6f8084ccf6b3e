# Looking inside trained memories; included by CMakeLists.txt of this folder.
crosstalk_library(crosstalk_inspect SOURCES inspect.cpp LIBS crosstalk_training crosstalk_tasks Eigen3::Eigen fmt::fmt)
crosstalk_test(inspect_test SOURCES inspect_test.cpp LIBS crosstalk_inspect crosstalk_study)
# GCC 12's own AVX-512 header trips this warning wherever Eigen is used (GCC bug 105593).
target_compile_options(crosstalk_inspect PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
