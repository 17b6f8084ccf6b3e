// The table of commands.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/command.h"

namespace crosstalk::program {

extern const Command run_command, plan_command, status_command, retry_command, work_command, submit_command,
    compact_command, verify_command, export_command, plot_command, table_command, compare_command,
    list_command, describe_command, sample_command, apply_command, bench_command, doctor_command,
    version_command, help_command, inspect_command, new_command, reference_command, completion_command,
    man_command, check_command, report_command, pilot_command, import_command, atlas_command, search_command;

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> table = {
      &new_command,    &check_command,     &pilot_command,      &run_command,    &plan_command,
      &status_command, &retry_command,     &work_command,       &submit_command, &compact_command,
      &verify_command, &export_command,    &import_command,     &plot_command,   &table_command,
      &report_command, &atlas_command,     &compare_command,    &list_command,   &describe_command,
      &sample_command, &apply_command,     &inspect_command,    &bench_command,  &doctor_command,
      &search_command, &reference_command, &completion_command, &man_command,    &version_command,
      &help_command,
  };
  return table;
}

const Command* find_command(const std::string& name) {
  for (const Command* command : commands())
    if (command->name == name) return command;
  return nullptr;
}

}  // namespace crosstalk::program
