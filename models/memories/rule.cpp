// A memory whose law stands in the study file as text (models/rules/, docs/rules.md). Without one it is the delta rule.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"
#include "models/rules/rule_memory.h"

CROSSTALK_MEMORY(rule) {
  return rules::memory_with(rules::rule_of("beta = sigmoid(token); S += beta (v - S k) k^T; read S q", {}));
}
