// A task whose answers are those of other sequences: what is read says nothing of what is right, so that nothing can be learned but
// how often each answer is right. A search over it must find nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "tasks/task.h"

namespace crosstalk::search {

/// The registered task of a configuration with such answers. It draws on the CPU alone.
std::unique_ptr<Task> shuffled_task(const Options& config);

}  // namespace crosstalk::search
