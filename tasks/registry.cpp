// The list of tasks: the one line that a new task adds outside its own files is here.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/task.h"

// NAME stands for `TaskKind NAME_kind()` in tasks/NAME.cpp; the order is that of `list tasks`.
#define CROSSTALK_TASKS(X) \
  X(recall)                \
  X(reassign)              \
  X(swap)

namespace crosstalk {

#define CROSSTALK_DECLARE(name) TaskKind name##_kind();
CROSSTALK_TASKS(CROSSTALK_DECLARE)

const std::vector<TaskKind>& task_kinds() {
#define CROSSTALK_ENTRY(name) name##_kind(),
  static const std::vector<TaskKind> kinds = {CROSSTALK_TASKS(CROSSTALK_ENTRY)};
  return kinds;
}

const TaskKind* find_task(const std::string& name) {
  for (const TaskKind& kind : task_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace crosstalk
