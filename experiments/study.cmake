# Reading and expanding study files. crosstalk_study_core knows no registry, so that its tests link without
# tasks, models and trainer; crosstalk_study adds them.
crosstalk_library(crosstalk_study_core
  SOURCES run_id.cpp schema.cpp study.cpp study_axis.cpp study_check.cpp study_expand.cpp study_file.cpp
          study_resolve.cpp study_set.cpp text_guard.cpp toml_reader.cpp
  LIBS crosstalk_kernels crosstalk_results fmt::fmt)
crosstalk_library(crosstalk_study
  SOURCES default_schema.cpp
  LIBS crosstalk_study_core crosstalk_tasks crosstalk_models crosstalk_training)

crosstalk_test(experiments_study_test
  SOURCES toml_reader_test.cpp study_test.cpp study_set_test.cpp study_errors_test.cpp study_mutation_test.cpp
          study_fixture.cpp fuzz_study.cpp
  LIBS crosstalk_study_core)
crosstalk_test(experiments_study_files_test SOURCES file_study_test.cpp study_files_test.cpp LIBS crosstalk_study)

# Theory of results/ against sequences of tasks/, which may not include each other.
crosstalk_test(theory_test SOURCES theory_test.cpp LIBS crosstalk_tasks crosstalk_results Eigen3::Eigen)

set(study_reader fuzz_study.cpp study_fixture.cpp run_id.cpp schema.cpp study.cpp study_axis.cpp study_check.cpp
  study_expand.cpp study_file.cpp study_resolve.cpp study_set.cpp text_guard.cpp toml_reader.cpp
  ../kernels/base/options.cpp ../results/labels.cpp ../results/printable.cpp)
crosstalk_fuzz_target(fuzz_study SOURCES ${study_reader} LIBS fmt::fmt crosstalk_random123)
crosstalk_fuzz_target(fuzz_set SOURCES ${study_reader} LIBS fmt::fmt crosstalk_random123 DEFINE CROSSTALK_FUZZ_SET)
