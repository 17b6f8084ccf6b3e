// Replicas of a pack against one alone: bits after some steps of training.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include "kernels/testing/compare.h"
#include "models/testing/model_run.h"

namespace crosstalk::checks {

constexpr int kSteps = 3;

template <class Real>
::testing::AssertionResult same(ModelRun<Real>& pack, int place, ModelRun<Real>& alone) {
  const auto check = [&](const std::string& what, const Tensor<Real>& a, const Tensor<Real>& b) {
    return identical(fmt::format("{} in place {}", what, place), a.at(place), b.at(0), a.size());
  };
  auto &p = pack.model.parameters(), &q = alone.model.parameters();
  if (pack.graph->output)
    if (auto ok = check("y", pack.graph->output->value, alone.graph->output->value); !ok) return ok;
  if (auto ok = check("loss", pack.graph->loss.loss->value, alone.graph->loss.loss->value); !ok) return ok;
  if (auto ok = check("gradients", p.gradients(), q.gradients()); !ok) return ok;
  if (auto ok = check("parameters", p.values(), q.values()); !ok) return ok;
  if (auto ok = check("first moments", p.first_moments(), q.first_moments()); !ok) return ok;
  return check("second moments", p.second_moments(), q.second_moments());
}

/// Every one of R replicas, each given another identity by fill(run, r, identity), in another order than that of their seeds.
template <class Real, class Fill>
void expect_as_alone(const Options& options, const ModelShape& shape, int R, int threads, const Fill& fill) {
  Exec parallel;
  parallel.threads = threads;
  const auto identity = [R](int r) { return (r * (R - 1) + 1) % R; };
  ModelRun<Real> pack(options, shape, R, true);
  for (int r = 0; r < R; ++r) fill(pack, r, identity(r));
  for (int step = 0; step < kSteps; ++step) pack.train_step(parallel);
  for (int r = 0; r < R; ++r) {
    ModelRun<Real> alone(options, shape, 1, true);
    fill(alone, 0, identity(r));
    for (int step = 0; step < kSteps; ++step) alone.train_step();
    ASSERT_TRUE(same(pack, r, alone));
  }
  pack.graph->graph.check_guards();
}

}  // namespace crosstalk::checks
