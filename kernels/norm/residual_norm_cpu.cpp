// ResidualNorm on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/residual_norm.h"

#include <cmath>
#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kRows = 64, kColumns = 32;
}

namespace {
template <class Real>
void ungated_forward(const Exec& exec, const ResidualNorm<Real>& op) {
  const int D = op.D();
  const Real eps = static_cast<Real>(op.eps);
  parallel_each(exec, op.x.value.R, op.rows(), kRows, [&](int r, std::int64_t n) {
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
    }
    if (op.inverse) op.mean.value.at(r)[n] = mean, op.inverse.value.at(r)[n] = inverse;
  });
}

template <class Real>
void ungated_backward(const Exec& exec, const ResidualNorm<Real>& op) {
  const int D = op.D(), R = op.x.value.R;
  const auto normed = [&](int r, std::int64_t n, int i) {
    return (op.total().at(r)[n * D + i] - op.mean.value.at(r)[n]) * op.inverse.value.at(r)[n];
  };
  parallel_blocks(exec, R, op.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const Real* gain = op.gain.value.at(r);
    for (std::int64_t n = begin; n < end; ++n) {
      const Real* d_y = op.y.gradient.at(r) + n * D;
      Real mean = 0, along = 0;
      for (int i = 0; i < D; ++i) {
        mean += d_y[i] * gain[i];
        along += d_y[i] * gain[i] * normed(r, n, i);
      }
      mean = op.norm == RowNorm::layer ? mean / static_cast<Real>(D) : Real(0);
      along /= static_cast<Real>(D);
      for (int i = 0; i < D; ++i) {
        Real d = (d_y[i] * gain[i] - mean - normed(r, n, i) * along) * op.inverse.value.at(r)[n];
        if (op.sum && op.sum.gradient.data) d += op.sum.gradient.at(r)[n * D + i];
        if (op.x.wanted()) put(op.x.write, op.x.gradient.at(r) + n * D + i, d);
        if (op.branch.wanted()) put(op.branch.write, op.branch.gradient.at(r) + n * D + i, d);
      }
    }
  });
  parallel_each(exec, R, D, kColumns, [&](int r, std::int64_t i) {
    Real d_gain = 0, d_bias = 0;
    for (std::int64_t n = 0; n < op.rows(); ++n) {
      const Real d_y = op.y.gradient.at(r)[n * D + i];
      d_gain += d_y * normed(r, n, static_cast<int>(i));
      d_bias += d_y;
    }
    if (op.gain.wanted()) put(op.gain.write, op.gain.gradient.at(r) + i, d_gain);
    if (op.bias.wanted()) put(op.bias.write, op.bias.gradient.at(r) + i, d_bias);
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const ResidualNorm<Real>& op) {
  ungated_forward(exec, op);
  if (!op.gate) return;
  parallel_each(exec, op.x.value.R, op.y.value.size(), 4096,
                [&](int r, std::int64_t i) { op.y.value.at(r)[i] *= op.opened(op.gate.value.at(r)[i]); });
}

template <class Real>
void backward_cpu(const Exec& exec, const ResidualNorm<Real>& op) {
  if (!op.gate) return ungated_backward(exec, op);
  const int D = op.D(), R = op.x.value.R;
  std::vector<Real> flow(static_cast<std::size_t>(op.y.value.size()) * static_cast<std::size_t>(R));
  ResidualNorm<Real> ungated = op;  // whose output has the gradient in front of the gate
  ungated.gate = {};
  ungated.y.gradient.data = flow.data(), ungated.y.gradient.replica_stride = op.y.value.size();
  parallel_blocks(exec, R, op.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * D; i < end * D; ++i) {
      const std::int64_t n = i / D, c = i % D;
      const Real d_y = op.y.gradient.at(r)[i], g = op.gate.value.at(r)[i],
                 normed = (op.total().at(r)[i] - op.mean.value.at(r)[n]) * op.inverse.value.at(r)[n],
                 y = op.gain.value.at(r)[c] * normed + (op.bias ? op.bias.value.at(r)[c] : Real(0));
      ungated.y.gradient.at(r)[i] = d_y * op.opened(g);
      if (op.gate.wanted()) put(op.gate.write, op.gate.gradient.at(r) + i, d_y * y * op.gate_slope(g));
    }
  });
  ungated_backward(exec, ungated);
}

CROSSTALK_INSTANTIATE(cpu, ResidualNorm)

}  // namespace crosstalk
