// Gathered values and the squared loss on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/readout.h"

#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/parallel.h"
#include "kernels/norm/normalize.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kRows = 32;

int used_slots(const Tensor<std::int32_t>& target, int r) {
  int n = 0;
  for (std::int64_t i = 0; i < target.size(); ++i) n += target.at(r)[i] >= 0;
  return std::max(1, n);
}
}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const GatherValues<Real>& a) {
  if (a.w.value) {
    Normalize<Real> share;
    share.eps = a.eps;
    share.x.value = a.a.value, share.y.value = a.w.value, share.inverse.value = a.inverse.value;
    forward_cpu(exec, share);
  }
  const Tensor<Real>& weights = a.w.value ? a.w.value : a.a.value;
  const int T = a.a.value.columns(), V = a.y.value.columns(), Q = a.a.value.dim(1),
            C = a.tokens.value.columns();
  parallel_blocks(exec, a.a.value.R, a.a.value.rows(), kRows,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int32_t* tokens = a.tokens.value.at(r) + i / Q * T * C;
                      Real* y = a.y.value.at(r) + i * V;
                      std::fill_n(y, V, Real(0));
                      for (int t = 0; t < T; ++t) {
                        const int value = tokens[t * C + channel_value];
                        if (value >= 0) y[value] += weights.at(r)[i * T + t];
                      }
                    }
                  });
}

template <class Real>
void backward_cpu(const Exec& exec, const GatherValues<Real>& a) {
  if (a.a.write == Write::none) return;
  const int T = a.a.gradient.columns(), V = a.y.gradient.columns(), Q = a.a.gradient.dim(1),
            C = a.tokens.value.columns();
  parallel_blocks(
      exec, a.a.gradient.R, a.a.gradient.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
        std::vector<Real> d_w(static_cast<std::size_t>(T));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int32_t* tokens = a.tokens.value.at(r) + i / Q * T * C;
          for (int t = 0; t < T; ++t) {
            const int value = tokens[t * C + channel_value];
            d_w[static_cast<std::size_t>(t)] = value >= 0 ? a.y.gradient.at(r)[i * V + value] : Real(0);
          }
          Real along = 0, inverse = 1;  // w = inverse a: d_a = inverse (d_w - d_w.w)
          if (a.w.value)
            along = dot(d_w.data(), a.w.value.at(r) + i * T, T), inverse = a.inverse.value.at(r)[i];
          for (int t = 0; t < T; ++t)
            put(a.a.write, a.a.gradient.at(r) + i * T + t,
                inverse * (d_w[static_cast<std::size_t>(t)] - along));
        }
      });
}

namespace {

template <class Real>
void put_gradient(const Exec& exec, const SquaredLoss<Real>& a) {
  const int V = a.y.value.columns();
  parallel_blocks(exec, a.y.value.R, a.y.value.rows(), kRows,
                  [&](int r, std::int64_t begin, std::int64_t end) {
                    const Real scale = Real(1) / static_cast<Real>(used_slots(a.target.value, r));
                    for (std::int64_t i = begin; i < end; ++i) {
                      const int target = a.target.value.at(r)[i];
                      for (int v = 0; v < V; ++v) {
                        const Real error = a.y.value.at(r)[i * V + v] - (v == target ? Real(1) : Real(0));
                        put(a.y.write, a.y.gradient.at(r) + i * V + v, target < 0 ? Real(0) : scale * error);
                      }
                    }
                  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const SquaredLoss<Real>& a) {
  const int V = a.y.value.columns();
  const std::int64_t n = a.y.value.rows();
  parallel_blocks(exec, a.y.value.R, n, kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Real* y = a.y.value.at(r) + i * V;
      const int target = a.target.value.at(r)[i];
      if (target < 0) {
        a.query_loss.value.at(r)[i] = 0;
        a.correct.value.at(r)[i] = -1;
        continue;
      }
      Real squares = 0;
      bool largest = true;
      for (int v = 0; v < V; ++v) {
        const Real difference = y[v] - (v == target ? Real(1) : Real(0));
        squares += difference * difference;
        largest &= v == target || y[target] > y[v];
      }
      a.query_loss.value.at(r)[i] = squares / 2;
      a.correct.value.at(r)[i] = largest ? 1 : 0;
    }
  });
  parallel_items(exec, a.y.value.R, 1, [&](int r, std::int64_t) {
    Real total = 0;
    for (std::int64_t i = 0; i < n; ++i) total += a.query_loss.value.at(r)[i];
    *a.loss.value.at(r) = total / static_cast<Real>(used_slots(a.target.value, r));
  });
  if (a.with_gradients && a.y.wanted()) put_gradient(exec, a);
}

template <class Real>
void backward_cpu(const Exec& exec, const SquaredLoss<Real>& a) {
  if (!a.with_gradients && a.y.wanted()) put_gradient(exec, a);
}

CROSSTALK_INSTANTIATE(cpu, GatherValues)
CROSSTALK_INSTANTIATE(cpu, SquaredLoss)

}  // namespace crosstalk
