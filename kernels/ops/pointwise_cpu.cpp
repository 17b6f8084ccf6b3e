// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/pointwise.h"

#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kRows = 128;
}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const PointwiseForward<Real>& a) {
  const Real scale = static_cast<Real>(a.scale), shift = static_cast<Real>(a.shift);
  parallel_blocks(exec, a.x.R, a.x.size(), kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
    const Real* x = a.x.at(r);
    Real* y = a.y.at(r);
    for (std::int64_t i = begin; i < end; ++i) {
      y[i] = a.map == PointMap::sigmoid ? scale / (1 + std::exp(-x[i])) : scale * x[i] + shift;
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const PointwiseBackward<Real>& a) {
  if (a.write_x == Write::none) return;
  const Real scale = static_cast<Real>(a.scale);
  parallel_blocks(exec, a.y.R, a.y.size(), kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Real y = a.y.at(r)[i];
      const Real slope = a.map == PointMap::sigmoid ? y * (1 - y / scale) : scale;
      put(a.write_x, a.d_x.at(r) + i, a.d_y.at(r)[i] * slope);
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const EraseRatioForward<Real>& a) {
  const int t = a.y.columns();
  parallel_blocks(exec, a.y.R, a.y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * t; i < end * t; ++i) {
      a.y.at(r)[i] = i % t == 0 || a.b.at(r)[i] == 0 ? Real(0) : a.a.at(r)[i] / a.b.at(r)[i];
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const EraseRatioBackward<Real>& a) {
  const int t = a.y.columns();
  parallel_blocks(exec, a.y.R, a.y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * t; i < end * t; ++i) {
      const Real d_a = i % t == 0 || a.b.at(r)[i] == 0 ? Real(0) : a.d_y.at(r)[i] / a.b.at(r)[i];
      if (a.write_a != Write::none) put(a.write_a, a.d_a.at(r) + i, d_a);
      if (a.write_b != Write::none) put(a.write_b, a.d_b.at(r) + i, -d_a * a.y.at(r)[i]);
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const RowDivideForward<Real>& a) {
  const int d = a.y.columns();
  parallel_blocks(exec, a.y.R, a.y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Real inverse = 1 / (a.b.at(r)[i] + static_cast<Real>(a.eps));
      for (int j = 0; j < d; ++j) a.y.at(r)[i * d + j] = a.a.at(r)[i * d + j] * inverse;
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const RowDivideBackward<Real>& a) {
  const int d = a.y.columns();
  parallel_blocks(exec, a.y.R, a.y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Real inverse = 1 / (a.b.at(r)[i] + static_cast<Real>(a.eps));
      const Real* d_y = a.d_y.at(r) + i * d;
      if (a.write_b != Write::none)
        put(a.write_b, a.d_b.at(r) + i, -inverse * dot(d_y, a.y.at(r) + i * d, d));
      if (a.write_a == Write::none) continue;
      for (int j = 0; j < d; ++j) put(a.write_a, a.d_a.at(r) + i * d + j, d_y[j] * inverse);
    }
  });
}

template void run_cpu(const Exec&, const PointwiseForward<float>&);
template void run_cpu(const Exec&, const PointwiseForward<double>&);
template void run_cpu(const Exec&, const PointwiseBackward<float>&);
template void run_cpu(const Exec&, const PointwiseBackward<double>&);
template void run_cpu(const Exec&, const EraseRatioForward<float>&);
template void run_cpu(const Exec&, const EraseRatioForward<double>&);
template void run_cpu(const Exec&, const EraseRatioBackward<float>&);
template void run_cpu(const Exec&, const EraseRatioBackward<double>&);
template void run_cpu(const Exec&, const RowDivideForward<float>&);
template void run_cpu(const Exec&, const RowDivideForward<double>&);
template void run_cpu(const Exec&, const RowDivideBackward<float>&);
template void run_cpu(const Exec&, const RowDivideBackward<double>&);

}  // namespace crosstalk
