# The program `crosstalk`: a library of its commands, so that tests can link it, and the executable.
crosstalk_library(crosstalk_program
  SOURCES
    program/apply.cpp
    program/bench.cpp
    program/command.cpp
    program/commands.cpp
    program/compact.cpp
    program/console.cpp
    program/describe.cpp
    program/devices.cpp
    program/dispatch.cpp
    program/doctor.cpp
    program/draw.cpp
    program/compare.cpp
    program/export.cpp
    program/forecast.cpp
    program/help.cpp
    program/inspect.cpp
    program/list.cpp
    program/new.cpp
    program/plan.cpp
    program/plot.cpp
    program/progress.cpp
    program/provenance.cpp
    program/reference.cpp
    program/requests.cpp
    program/retry.cpp
    program/row_stream.cpp
    program/run.cpp
    program/sample.cpp
    program/session.cpp
    program/session_options.cpp
    program/shared_work.cpp
    program/shares.cpp
    program/signals.cpp
    program/status.cpp
    program/table.cpp
    program/stores.cpp
    program/submit.cpp
    program/text.cpp
    program/topics.cpp
    program/verify.cpp
    program/version.cpp
    program/work.cpp
    program/worker.cpp
    program/workers.cpp
  LIBS crosstalk_study crosstalk_sample crosstalk_inspect crosstalk_training crosstalk_results crosstalk_plots crosstalk_version
       Boost::program_options fmt::fmt nlohmann_json::nlohmann_json)

if(CROSSTALK_HAVE_CUDA)  # for `crosstalk doctor`
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
  set_property(SOURCE program/doctor.cpp APPEND PROPERTY
    COMPILE_DEFINITIONS "CROSSTALK_CUDA_ARCHITECTURES=\"${architectures}\"")
endif()

add_executable(crosstalk main.cpp)
target_link_libraries(crosstalk PRIVATE crosstalk_program)
set_target_properties(crosstalk PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")

crosstalk_test(program_test
  SOURCES program/bench_test.cpp program/command_test.cpp program/forecast_test.cpp program/progress_test.cpp
          program/row_stream_test.cpp program/schedule_fixture.cpp program/schedule_test.cpp
          program/shared_work_test.cpp program/shares_test.cpp program/text_test.cpp program/verify_test.cpp
  LIBS crosstalk_program)
# Brings a trainer of its own: must not link the real one's scheduler (the archive gives way).
crosstalk_test(program_session_test SOURCES program/session_test.cpp LIBS crosstalk_program)

# The program from outside. One entry a file: bats starts in no time, and the tests share nothing.
if(CROSSTALK_TESTS)
  find_program(BATS bats)
  set(environment "CROSSTALK=$<TARGET_FILE:crosstalk>" "CROSSTALK_SOURCE=${CMAKE_SOURCE_DIR}")
  foreach(file cli hostile inside sharing submit workers)
    add_test(NAME program.${file} COMMAND "${BATS}" "${CMAKE_CURRENT_SOURCE_DIR}/program/${file}.bats")
    set_tests_properties(program.${file} PROPERTIES ENVIRONMENT "${environment}" TIMEOUT ${CROSSTALK_FIVE_MINUTES})
    if(NOT BATS)
      set_tests_properties(program.${file} PROPERTIES DISABLED TRUE)
    endif()
  endforeach()
  if(NOT BATS)
    message(WARNING "bats was not found: the tests of the command line will not run (apt install bats)")
  endif()
  # `crosstalk apply` against numpy, with the first Python that has it.
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/program/apply.cpp")
    set(numpy_python "")
    foreach(python "$ENV{CROSSTALK_PYTHON}" "${Python3_EXECUTABLE}" /usr/bin/python3)
      if(python AND NOT numpy_python)
        execute_process(COMMAND "${python}" -c "import numpy" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
        if(failed EQUAL 0)
          set(numpy_python "${python}")
        endif()
      endif()
    endforeach()
    if(numpy_python)
      add_test(NAME program.apply COMMAND "${numpy_python}" "${CMAKE_CURRENT_SOURCE_DIR}/program/apply_test.py"
        "$<TARGET_FILE:crosstalk>")
      # docs/apply.md: its example and its table.
      add_test(NAME program.apply_page COMMAND "${numpy_python}" "${CMAKE_SOURCE_DIR}/scripts/check-apply-page.py"
        "${CMAKE_SOURCE_DIR}" "$<TARGET_FILE:crosstalk>")
      # Figures that the program calculates itself, against theory; skipped without matplotlib.
      add_test(NAME program.figures COMMAND "${numpy_python}" "${CMAKE_SOURCE_DIR}/plots/figures/figures_test.py"
        "$<TARGET_FILE:crosstalk>")
      set_tests_properties(program.figures PROPERTIES SKIP_RETURN_CODE 77
        ENVIRONMENT "OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1" TIMEOUT ${CROSSTALK_TEN_MINUTES})
      # README.md: its commands and examples as they stand.
      set(check_readme "${numpy_python}" "${CMAKE_SOURCE_DIR}/scripts/check-readme.py")
      add_test(NAME program.readme COMMAND ${check_readme} "${CMAKE_SOURCE_DIR}" "$<TARGET_FILE:crosstalk>")
      add_test(NAME program.readme_pytorch
        COMMAND ${check_readme} --pytorch "${CMAKE_SOURCE_DIR}" "$<TARGET_FILE:crosstalk>")
      set_tests_properties(program.readme program.readme_pytorch PROPERTIES SKIP_RETURN_CODE 77)
      set_tests_properties(program.apply program.apply_page program.readme program.readme_pytorch PROPERTIES
        ENVIRONMENT "OMP_NUM_THREADS=1" TIMEOUT ${CROSSTALK_TEN_MINUTES})
    else()
      message(WARNING "no Python with numpy was found: `crosstalk apply` will not be tested (apt install python3-numpy)")
    endif()
  endif()
  # What is installed, moved and used elsewhere.
  add_test(NAME program.install
    COMMAND bash "${CMAKE_SOURCE_DIR}/scripts/install_test.sh" "${CMAKE_BINARY_DIR}")
  set_tests_properties(program.install PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1" TIMEOUT ${CROSSTALK_FIVE_MINUTES})
  add_test(NAME program.kill_20
    COMMAND bash "${CMAKE_SOURCE_DIR}/scripts/kill_test.sh" --kills 20 --crosstalk "$<TARGET_FILE:crosstalk>")
  set_tests_properties(program.kill_20 PROPERTIES LABELS slow TIMEOUT 600)
  foreach(rounds 4 1000)  # many processes on one store, killed at random
    add_test(NAME program.share_${rounds}
      COMMAND python3 "${CMAKE_SOURCE_DIR}/scripts/share_test.py" --rounds ${rounds}
              --crosstalk "$<TARGET_FILE:crosstalk>")
    set_tests_properties(program.share_${rounds} PROPERTIES TIMEOUT ${CROSSTALK_FIVE_MINUTES})
  endforeach()
  set_tests_properties(program.share_1000 PROPERTIES LABELS slow TIMEOUT 7200)
  # A Slurm of two nodes on this machine, from the Debian package; skipped with its reason where that cannot be.
  add_test(NAME program.slurm
    COMMAND python3 "${CMAKE_SOURCE_DIR}/scripts/slurm_test.py" --crosstalk "$<TARGET_FILE:crosstalk>")
  set_tests_properties(program.slurm PROPERTIES LABELS slow TIMEOUT 3600 SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
endif()
