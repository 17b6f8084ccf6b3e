# The trainer.
crosstalk_library(crosstalk_training
  SOURCES training_options.cpp training/epoch.cpp training/evaluation.cpp training/exam.cpp training/lesson.cpp
          training/optimizer.cpp training/pack.cpp training/pack_key.cpp training/pack_queue.cpp
          training/profiles.cpp training/record_of.cpp training/replicas.cpp training/run_state.cpp
          training/scheduler.cpp training/slot_state.cpp training/test_reader.cpp training/threads.cpp training/weights.cpp
  LIBS crosstalk_models crosstalk_tasks crosstalk_results fmt::fmt)
crosstalk_test(experiments_training_test
  SOURCES training/training_test.cpp training/course_test.cpp training/pack_test.cpp training/resume_test.cpp training/epoch_test.cpp training/evaluation_test.cpp
          training/weights_test.cpp training/probe_test.cpp
  LIBS crosstalk_training crosstalk_study)
crosstalk_test(experiments_training_cuda_test
  SOURCES training/training_cuda_test.cpp
  LIBS crosstalk_training crosstalk_study LABELS gpu)
crosstalk_fuzz_target(fuzz_state
  SOURCES training/run_state_fuzz.cpp training/run_state.cpp ../results/record.cpp ../results/crc32c.cpp
          ../kernels/base/options.cpp
  LIBS fmt::fmt nlohmann_json::nlohmann_json Boost::headers)
