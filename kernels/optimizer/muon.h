// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/): the momentum of a matrix, made nearly
// orthogonal by Newton and Schulz's iteration, is its update. For matrices of a flat block of parameters a replica:
//   m = mu m + g,  D = g + mu m (Nesterov),  X = D / (|D| + 1e-7), with rows and columns exchanged where there are more rows,
//   five times: A = X X^T, X = 3.4445 X + (-4.7750 A + 2.0315 A A) X,
//   p -= lr decay p,  p -= lr sqrt(max(1, rows / columns)) X.
// The coefficients do not converge to the orthogonal factor of D: they bring its singular values near 1 (about .7 to 1.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"
#include "kernels/optimizer/book_keeping.h"

namespace crosstalk {

inline constexpr double kMuonA = 3.4445, kMuonB = -4.7750, kMuonC = 2.0315, kMuonEps = 1e-7;
inline constexpr int kMuonIterations = 5;

/// Columns of MuonStep::matrices: where a matrix begins in the block, its shape, and where its workspace begins.
enum MuonColumn : int { muon_offset, muon_rows, muon_columns, muon_workspace, kMuonColumns };

/// parameter, gradient and momentum m [R,P]; matrices int32 [R,M,kMuonColumns], the same for every replica; workspace [R,W],
/// muon_workspace(rows, columns) numbers a matrix; learning_rate [R,1] and step int32 [R,1] (1 at the first update) differ by
/// replica. The rate is multiplied by what `schedule` says of the step; in one cycle mu goes from `momentum` to
/// `low_momentum` and back, as PyTorch's OneCycleLR has it. Absent: weight_decay [R,1] (none), gradient_scale [R,1] (1).
template <class Real>
struct MuonStep {
  double momentum = 0.95, low_momentum = 0.85;
  RateSchedule schedule = {};
  Tensor<Real> parameter, gradient, m, workspace;
  Tensor<std::int32_t> matrices;
  Tensor<double> learning_rate;
  Tensor<std::int32_t> step;
  Tensor<double> weight_decay = {}, gradient_scale = {};
};

CROSSTALK_STEP(MuonStep)

/// Numbers that the iteration of a matrix needs: X and the next X, A and the polynomial of A.
constexpr std::int64_t muon_workspace_size(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = rows < columns ? rows : columns;
  return 2 * (rows * columns + least * least);
}

/// mu at a step of `schedule`, counted from 1.
CT_HD inline double muon_momentum(const RateSchedule& schedule, std::int32_t step, double momentum,
                                  double low) {
  if (schedule.cycle <= 0) return momentum;
  constexpr double pi = 3.141592653589793;
  const std::int32_t at = step - 1, top = schedule.warmup - 1;
  if (at <= top) return low + (momentum - low) / 2 * (1 + cos(pi * at / top));
  const double passed = at < schedule.cycle ? static_cast<double>(at - top) / (schedule.cycle - 1 - top) : 1;
  return momentum + (low - momentum) / 2 * (1 + cos(pi * passed));
}

/// Factor of an update besides the rate.
CT_HD inline double muon_scale(std::int32_t rows, std::int32_t columns) {
  return rows > columns ? sqrt(static_cast<double>(rows) / columns) : 1.0;
}

}  // namespace crosstalk
