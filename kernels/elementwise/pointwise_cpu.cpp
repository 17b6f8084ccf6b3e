// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/pointwise.h"

#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kRows = 128;
}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Pointwise<Real>& a) {
  const Real scale = static_cast<Real>(a.scale), shift = static_cast<Real>(a.shift);
  parallel_blocks(
      exec, a.x.value.R, a.x.value.size(), kBlock, [&](int r, std::int64_t begin, std::int64_t end) {
        const Real* x = a.x.value.at(r);
        Real* y = a.y.value.at(r);
        for (std::int64_t i = begin; i < end; ++i) {
          y[i] = a.map == PointMap::sigmoid ? scale / (1 + std::exp(-x[i])) : scale * x[i] + shift;
        }
      });
}

template <class Real>
void backward_cpu(const Exec& exec, const Pointwise<Real>& a) {
  if (a.x.write == Write::none) return;
  const Real scale = static_cast<Real>(a.scale);
  parallel_blocks(exec, a.y.value.R, a.y.value.size(), kBlock,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Real y = a.y.value.at(r)[i];
                      const Real slope = a.map == PointMap::sigmoid ? y * (1 - y / scale) : scale;
                      put(a.x.write, a.x.gradient.at(r) + i, a.y.gradient.at(r)[i] * slope);
                    }
                  });
}

template <class Real>
void forward_cpu(const Exec& exec, const EraseRatio<Real>& a) {
  const int t = a.y.value.columns();
  parallel_blocks(
      exec, a.y.value.R, a.y.value.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * t; i < end * t; ++i) {
          a.y.value.at(r)[i] =
              i % t == 0 || a.b.value.at(r)[i] == 0 ? Real(0) : a.a.value.at(r)[i] / a.b.value.at(r)[i];
        }
      });
}

template <class Real>
void backward_cpu(const Exec& exec, const EraseRatio<Real>& a) {
  const int t = a.y.value.columns();
  parallel_blocks(
      exec, a.y.value.R, a.y.value.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * t; i < end * t; ++i) {
          const Real d_a =
              i % t == 0 || a.b.value.at(r)[i] == 0 ? Real(0) : a.y.gradient.at(r)[i] / a.b.value.at(r)[i];
          if (a.a.write != Write::none) put(a.a.write, a.a.gradient.at(r) + i, d_a);
          if (a.b.write != Write::none) put(a.b.write, a.b.gradient.at(r) + i, -d_a * a.y.value.at(r)[i]);
        }
      });
}

template <class Real>
void forward_cpu(const Exec& exec, const RowDivide<Real>& a) {
  const int d = a.y.value.columns();
  parallel_blocks(exec, a.y.value.R, a.y.value.rows(), kRows,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Real inverse = 1 / (a.b.value.at(r)[i] + static_cast<Real>(a.eps));
                      for (int j = 0; j < d; ++j)
                        a.y.value.at(r)[i * d + j] = a.a.value.at(r)[i * d + j] * inverse;
                    }
                  });
}

template <class Real>
void backward_cpu(const Exec& exec, const RowDivide<Real>& a) {
  const int d = a.y.value.columns();
  parallel_blocks(
      exec, a.y.value.R, a.y.value.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const Real inverse = 1 / (a.b.value.at(r)[i] + static_cast<Real>(a.eps));
          const Real* d_y = a.y.gradient.at(r) + i * d;
          if (a.b.write != Write::none)
            put(a.b.write, a.b.gradient.at(r) + i, -inverse * dot(d_y, a.y.value.at(r) + i * d, d));
          if (a.a.write == Write::none) continue;
          for (int j = 0; j < d; ++j) put(a.a.write, a.a.gradient.at(r) + i * d + j, d_y[j] * inverse);
        }
      });
}

CROSSTALK_INSTANTIATE(cpu, Pointwise)
CROSSTALK_INSTANTIATE(cpu, EraseRatio)
CROSSTALK_INSTANTIATE(cpu, RowDivide)

}  // namespace crosstalk
