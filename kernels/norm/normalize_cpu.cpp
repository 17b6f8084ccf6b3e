// Normalisation of rows on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/normalize.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kRows = 128;
}

template <class Real>
void forward_cpu(const Exec& exec, const Normalize<Real>& a) {
  const int d = a.x.value.columns();
  const Real eps = static_cast<Real>(a.eps);
  parallel_each(exec, a.x.value.R, a.x.value.rows(), kRows, [&](int r, std::int64_t i) {
    const Real* x = a.x.value.at(r) + i * d;
    Real* y = a.y.value.at(r) + i * d;
    Real shift = 0, inverse = 0;
    switch (a.norm) {
      case RowNorm::sum:
        inverse = 1 / (sum(x, d) + eps);
        break;
      case RowNorm::l2:
        if (const Real square = dot(x, x, d) + eps; square > 0 || square != square)
          inverse = 1 / std::sqrt(square);
        break;
      case RowNorm::rms:
        inverse = 1 / std::sqrt(dot(x, x, d) / static_cast<Real>(d) + eps);
        break;
      case RowNorm::layer: {
        shift = sum(x, d) / static_cast<Real>(d);
        for (int j = 0; j < d; ++j) y[j] = x[j] - shift;
        inverse = 1 / std::sqrt(dot(y, y, d) / static_cast<Real>(d) + eps);
        break;
      }
      case RowNorm::softmax: {
        const Real top = *std::max_element(x, x + d);
        for (int j = 0; j < d; ++j) y[j] = std::exp(x[j] - top);
        inverse = 1 / (sum(y, d) + eps);
        break;
      }
    }
    for (int j = 0; j < d; ++j) y[j] = (a.norm == RowNorm::softmax ? y[j] : x[j] - shift) * inverse;
    a.inverse.value.at(r)[i] = inverse;
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Normalize<Real>& a) {
  if (a.x.write == Write::none) return;
  const int d = a.y.value.columns();
  parallel_each(exec, a.y.value.R, a.y.value.rows(), kRows, [&](int r, std::int64_t i) {
    const Real* y = a.y.value.at(r) + i * d;
    const Real* d_y = a.y.gradient.at(r) + i * d;
    Real* d_x = a.x.gradient.at(r) + i * d;
    const Real inverse = a.inverse.value.at(r)[i];
    const Real along = dot(d_y, y, d);
    switch (a.norm) {
      case RowNorm::sum:  // y_j = x_j s, s = 1/(sum x + eps): d_x = s (d_y - d_y.y)
        for (int j = 0; j < d; ++j) put(a.x.write, d_x + j, inverse * (d_y[j] - along));
        break;
      case RowNorm::l2:  // d_x = s (d_y - y (d_y.y))
        for (int j = 0; j < d; ++j) put(a.x.write, d_x + j, inverse * (d_y[j] - y[j] * along));
        break;
      case RowNorm::softmax:  // d_x = y (d_y - d_y.y)
        for (int j = 0; j < d; ++j) put(a.x.write, d_x + j, y[j] * (d_y[j] - along));
        break;
      case RowNorm::rms:
        for (int j = 0; j < d; ++j)
          put(a.x.write, d_x + j, inverse * (d_y[j] - y[j] * (along / static_cast<Real>(d))));
        break;
      case RowNorm::layer: {
        const Real mean = sum(d_y, d) / static_cast<Real>(d), slope = along / static_cast<Real>(d);
        for (int j = 0; j < d; ++j) put(a.x.write, d_x + j, inverse * (d_y[j] - mean - y[j] * slope));
        break;
      }
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, Normalize)

}  // namespace crosstalk
