// ResidualNorm on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/residual_norm.h"

#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kRows = 64, kColumns = 32;
}

template <class Real>
void forward_cpu(const Exec& exec, const ResidualNorm<Real>& op) {
  const int D = op.D();
  const Real eps = static_cast<Real>(op.eps);
  parallel_blocks(exec, op.x.value.R, op.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      if (op.branch) {
        const Real *a = op.x.value.at(r) + n * D, *b = op.branch.value.at(r) + n * D;
        for (int i = 0; i < D; ++i) op.sum.value.at(r)[n * D + i] = a[i] + b[i];
      }
      const Real* s = op.total().at(r) + n * D;
      Real* y = op.y.value.at(r) + n * D;
      const Real mean = op.norm == RowNorm::layer ? sum(s, D) / static_cast<Real>(D) : Real(0);
      Real square = 0;
      for (int i = 0; i < D; ++i) square += (s[i] - mean) * (s[i] - mean);
      const Real inverse = 1 / std::sqrt(square / static_cast<Real>(D) + eps);
      for (int i = 0; i < D; ++i) {
        y[i] = op.gain.value.at(r)[i] * ((s[i] - mean) * inverse);
        if (op.bias) y[i] += op.bias.value.at(r)[i];
        if (op.gate) y[i] *= op.opened(op.gate.value.at(r)[n * D + i]);
      }
      if (op.inverse) op.mean.value.at(r)[n] = mean, op.inverse.value.at(r)[n] = inverse;
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const ResidualNorm<Real>& op) {
  const int D = op.D(), R = op.x.value.R;
  const auto normed = [&](int r, std::int64_t n, int i) {
    return (op.total().at(r)[n * D + i] - op.mean.value.at(r)[n]) * op.inverse.value.at(r)[n];
  };
  // The gradient in front of the gate.
  const auto flow = [&](int r, std::int64_t n, int i) {
    const Real d_y = op.y.gradient.at(r)[n * D + i];
    return op.gate ? d_y * op.opened(op.gate.value.at(r)[n * D + i]) : d_y;
  };
  parallel_blocks(exec, R, op.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const Real* gain = op.gain.value.at(r);
    for (std::int64_t n = begin; n < end; ++n) {
      Real mean = 0, along = 0;
      for (int i = 0; i < D; ++i) {
        const Real d_y = flow(r, n, i);
        mean += d_y * gain[i];
        along += d_y * gain[i] * normed(r, n, i);
        if (!op.gate.wanted()) continue;
        const Real ungated = gain[i] * normed(r, n, i) + (op.bias ? op.bias.value.at(r)[i] : Real(0));
        put(op.gate.write, op.gate.gradient.at(r) + n * D + i,
            op.y.gradient.at(r)[n * D + i] * ungated * op.gate_slope(op.gate.value.at(r)[n * D + i]));
      }
      mean = op.norm == RowNorm::layer ? mean / static_cast<Real>(D) : Real(0);
      along /= static_cast<Real>(D);
      for (int i = 0; i < D; ++i) {
        Real d = (flow(r, n, i) * gain[i] - mean - normed(r, n, i) * along) * op.inverse.value.at(r)[n];
        if (op.sum && op.sum.gradient.data) d += op.sum.gradient.at(r)[n * D + i];
        if (op.x.wanted()) put(op.x.write, op.x.gradient.at(r) + n * D + i, d);
        if (op.branch.wanted()) put(op.branch.write, op.branch.gradient.at(r) + n * D + i, d);
      }
    }
  });
  parallel_blocks(exec, R, D, kColumns, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Real d_gain = 0, d_bias = 0;
      for (std::int64_t n = 0; n < op.rows(); ++n) {
        const Real d_y = flow(r, n, static_cast<int>(i));
        d_gain += d_y * normed(r, n, static_cast<int>(i));
        d_bias += d_y;
      }
      if (op.gain.wanted()) put(op.gain.write, op.gain.gradient.at(r) + i, d_gain);
      if (op.bias.wanted()) put(op.bias.write, op.bias.gradient.at(r) + i, d_bias);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, ResidualNorm)

}  // namespace crosstalk
