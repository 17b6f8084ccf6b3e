// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/prefix_dot.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void forward_cpu(const Exec& exec, const PrefixDot<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    std::vector<Real> z(static_cast<std::size_t>(P));
    for (int t = 0; t <= T; ++t) {  // z holds the sum of the first t keys
      for (int i = 0; i < Q; ++i) {
        if (a.position.value.at(r)[b * Q + i] == t)
          a.zq.value.at(r)[b * Q + i] = dot(z.data(), a.q.value.at(r) + (b * Q + i) * P, P);
      }
      if (t == T) break;
      const Real* key = a.k.value.at(r) + (b * T + t) * P;
      a.zk.value.at(r)[b * T + t] = dot(z.data(), key, P);
      axpy(Real(1), key, z.data(), P);
    }
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const PrefixDot<Real>& a) {
  const int B = a.k.value.dim(0), T = a.k.value.dim(1), P = a.k.value.dim(2), Q = a.q.value.dim(1);
  parallel_items(exec, a.k.value.R, B, [&](int r, std::int64_t b) {
    std::vector<Real> sum(static_cast<std::size_t>(P));
    const auto d_k = [&](int t) { return a.k.gradient.at(r) + (b * T + t) * P; };
    if (a.k.write == Write::overwrite) std::fill_n(d_k(0), static_cast<std::int64_t>(T) * P, Real(0));
    for (int t = 0; t <= T; ++t) {  // forward in time: z
      for (int i = 0; i < Q && a.q.write != Write::none; ++i) {
        if (a.position.value.at(r)[b * Q + i] != t) continue;
        for (int j = 0; j < P; ++j) {
          put(a.q.write, a.q.gradient.at(r) + (b * Q + i) * P + j,
              a.zq.gradient.at(r)[b * Q + i] * sum[static_cast<std::size_t>(j)]);
        }
      }
      if (t == T) break;
      if (a.k.write != Write::none) axpy(a.zk.gradient.at(r)[b * T + t], sum.data(), d_k(t), P);
      axpy(Real(1), a.k.value.at(r) + (b * T + t) * P, sum.data(), P);
    }
    if (a.k.write == Write::none) return;
    std::fill(sum.begin(), sum.end(), Real(0));
    for (int t = T - 1; t >= 0; --t) {  // backward in time: what later products want of z_t
      for (int i = 0; i < Q; ++i) {
        if (a.position.value.at(r)[b * Q + i] == t + 1)
          axpy(a.zq.gradient.at(r)[b * Q + i], a.q.value.at(r) + (b * Q + i) * P, sum.data(), P);
      }
      axpy(Real(1), sum.data(), d_k(t), P);
      axpy(a.zk.gradient.at(r)[b * T + t], a.k.value.at(r) + (b * T + t) * P, sum.data(), P);
    }
  });
}

CROSSTALK_INSTANTIATE(cpu, PrefixDot)

}  // namespace crosstalk
