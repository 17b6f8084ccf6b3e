# The program `crosstalk`: a library of its commands, so that tests can link it, and the executable.
crosstalk_library(crosstalk_program
  SOURCES
    program/command.cpp
    program/commands.cpp
    program/console.cpp
    program/describe.cpp
    program/dispatch.cpp
    program/export.cpp
    program/help.cpp
    program/list.cpp
    program/plan.cpp
    program/plot.cpp
    program/progress.cpp
    program/provenance.cpp
    program/retry.cpp
    program/run.cpp
    program/sample.cpp
    program/session.cpp
    program/signals.cpp
    program/status.cpp
    program/stores.cpp
    program/text.cpp
    program/version.cpp
  LIBS crosstalk_study crosstalk_sample crosstalk_training crosstalk_results crosstalk_plots crosstalk_version
       Boost::program_options fmt::fmt nlohmann_json::nlohmann_json)

add_executable(crosstalk main.cpp)
target_link_libraries(crosstalk PRIVATE crosstalk_program)
set_target_properties(crosstalk PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
