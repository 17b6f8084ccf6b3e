// A step of a retrieval model whose memory is a law.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "models/testing/model_run.h"

namespace crosstalk::checks {

inline void expect_rule_trains(const std::string& law, int queries = 3) {
  SCOPED_TRACE(law);
  const Memory& kind = *find_memory("rule");
  Options options = memory_options(kind, 4, kKeys, kValues);
  options.set("memory.law", law);
  const ModelShape shape{kKeys, kValues, true, kB, {kT, 3, queries}};
  ModelRun<double> run(resolved(kind, options), shape, 1, true);
  RandomStream random(7, RandomDomain::task_train, 3);
  run.model.initialise(0, 7);
  HandBatch batch = random_batch(random, shape.B, shape.sequence, shape.keys, shape.values);
  for (std::int32_t& position : batch.position)
    position = std::max(position, 1);  // a reading may look at the token
  run.set_batch(0, batch);
  run.train_step();
  const Tensor<double> x = run.model.parameters().values();
  for (std::int64_t i = 0; i < x.size(); ++i) ASSERT_TRUE(std::isfinite(x.at(0)[i]));
}

}  // namespace crosstalk::checks
