# Reading and expanding study files. crosstalk_study_core knows no registry, so that its tests link without
# tasks, models and trainer; crosstalk_study adds them.
crosstalk_library(crosstalk_study_core
  SOURCES run_id.cpp schema.cpp study.cpp study_axis.cpp study_check.cpp study_expand.cpp study_file.cpp
          study_resolve.cpp study_set.cpp text_guard.cpp toml_reader.cpp
  LIBS crosstalk_kernels fmt::fmt)
crosstalk_library(crosstalk_study SOURCES default_schema.cpp LIBS crosstalk_study_core crosstalk_tasks crosstalk_models)
