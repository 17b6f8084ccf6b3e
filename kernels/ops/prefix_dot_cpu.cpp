// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/prefix_dot.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {

template <class Real>
void run_cpu(const Exec& exec, const PrefixDotForward<Real>& a) {
  const int B = a.k.dim(0), T = a.k.dim(1), P = a.k.dim(2), Q = a.q.dim(1);
  parallel_items(exec, a.k.R, B, [&](int r, std::int64_t b) {
    std::vector<Real> z(static_cast<std::size_t>(P));
    for (int t = 0; t <= T; ++t) {  // z holds the sum of the first t keys
      for (int i = 0; i < Q; ++i) {
        if (a.position.at(r)[b * Q + i] == t)
          a.zq.at(r)[b * Q + i] = dot(z.data(), a.q.at(r) + (b * Q + i) * P, P);
      }
      if (t == T) break;
      const Real* key = a.k.at(r) + (b * T + t) * P;
      a.zk.at(r)[b * T + t] = dot(z.data(), key, P);
      axpy(Real(1), key, z.data(), P);
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const PrefixDotBackward<Real>& a) {
  const int B = a.k.dim(0), T = a.k.dim(1), P = a.k.dim(2), Q = a.q.dim(1);
  parallel_items(exec, a.k.R, B, [&](int r, std::int64_t b) {
    std::vector<Real> sum(static_cast<std::size_t>(P));
    const auto d_k = [&](int t) { return a.d_k.at(r) + (b * T + t) * P; };
    if (a.write_k == Write::overwrite) std::fill_n(d_k(0), static_cast<std::int64_t>(T) * P, Real(0));
    for (int t = 0; t <= T; ++t) {  // forward in time: z
      for (int i = 0; i < Q && a.write_q != Write::none; ++i) {
        if (a.position.at(r)[b * Q + i] != t) continue;
        for (int j = 0; j < P; ++j) {
          put(a.write_q, a.d_q.at(r) + (b * Q + i) * P + j,
              a.d_zq.at(r)[b * Q + i] * sum[static_cast<std::size_t>(j)]);
        }
      }
      if (t == T) break;
      if (a.write_k != Write::none) axpy(a.d_zk.at(r)[b * T + t], sum.data(), d_k(t), P);
      axpy(Real(1), a.k.at(r) + (b * T + t) * P, sum.data(), P);
    }
    if (a.write_k == Write::none) return;
    std::fill(sum.begin(), sum.end(), Real(0));
    for (int t = T - 1; t >= 0; --t) {  // backward in time: what later products want of z_t
      for (int i = 0; i < Q; ++i) {
        if (a.position.at(r)[b * Q + i] == t + 1)
          axpy(a.d_zq.at(r)[b * Q + i], a.q.at(r) + (b * Q + i) * P, sum.data(), P);
      }
      axpy(Real(1), sum.data(), d_k(t), P);
      axpy(a.d_zk.at(r)[b * T + t], a.k.at(r) + (b * T + t) * P, sum.data(), P);
    }
  });
}

template void run_cpu(const Exec&, const PrefixDotForward<float>&);
template void run_cpu(const Exec&, const PrefixDotForward<double>&);
template void run_cpu(const Exec&, const PrefixDotBackward<float>&);
template void run_cpu(const Exec&, const PrefixDotBackward<double>&);

}  // namespace crosstalk
