# Samples of tasks as text and .npy; included by CMakeLists.txt of this folder.
crosstalk_library(crosstalk_sample SOURCES sample.cpp LIBS crosstalk_tasks fmt::fmt)
crosstalk_test(sample_test SOURCES sample_test.cpp LIBS crosstalk_sample)
