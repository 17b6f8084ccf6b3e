// Features of looked-up keys against their chain on the CPU: lookup, feature map, normalisation.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/table_features.h"

#include <algorithm>
#include <cmath>

#include "kernels/testing/op_check.h"

namespace crosstalk::checks::table_features_test {
namespace {

/// Two replicas of N tokens' keys, by the chain (x and phi in memory) or by the op.
template <class Real>
struct OnCpu {
  OnCpu(int nu, int norm, int N, int d) : p(map_width(FeatureMap::dpfp, d, nu, 0)), normalised(norm >= 0) {
    lookup.tables = 2, phi.map = FeatureMap::dpfp, phi.number = nu;
    normalize.norm = norm == 1 ? RowNorm::l2 : RowNorm::sum, normalize.eps = 0.5;
    reserve(lookup.ids.value, N, 2);
    for (int t = 0; t < 2; ++t) reserve(lookup.table[t].value, 6, d), lookup.channel[t] = 1 - t;
    reserve(lookup.y.value, N, d), reserve(lookup.y.gradient, N, d);
    reserve(normalize.y.value, N, p), reserve(normalize.y.gradient, N, p);
    reserve(normalize.inverse.value, N, 1);
    reserve(phi.y.value, N, p), reserve(phi.y.gradient, N, p);
    arena.allocate();
    phi.x.value = lookup.y.value, phi.x.gradient = lookup.y.gradient, phi.x.write = Write::overwrite;
    normalize.x.value = phi.y.value, normalize.x.gradient = phi.y.gradient,
    normalize.x.write = Write::overwrite;
    if (!normalised) phi.y = normalize.y;
    for (int r = 0; r < 2; ++r) {
      for (int i = 0; i < 2 * N; ++i) lookup.ids.value.at(r)[i] = (i * i + r + 3) % 7 - 1;  // -1: absent
      for (int i = 0; i < 6 * d; ++i) {
        lookup.table[0].value.at(r)[i] = static_cast<Real>(std::sin(3. * i + r));
        lookup.table[1].value.at(r)[i] = static_cast<Real>(std::sin(7. * i + r));
      }
      for (int i = 0; i < N * p; ++i) normalize.y.gradient.at(r)[i] = static_cast<Real>(std::cos(5. * i + r));
      std::fill_n(normalize.inverse.value.at(r), N, Real(0));
    }
  }
  template <class T>
  void reserve(Tensor<T>& t, int N, int columns) {
    t.R = 2, t.rank = 2, t.dims[0] = N, t.dims[1] = columns;
    arena.reserve(&t);
  }
  void chain() {
    const Exec exec;
    forward_cpu(exec, lookup), forward_cpu(exec, phi);
    if (normalised) forward_cpu(exec, normalize), backward_cpu(exec, normalize);
    backward_cpu(exec, phi);
  }
  void fused(int threads) {
    Exec exec;
    exec.threads = threads;
    TableFeatures<Real> from;
    from.keys.map = phi.map, from.keys.nu = phi.number, from.keys.ids = lookup.ids.value,
    from.keys.tables = 2;
    for (int t = 0; t < 2; ++t)
      from.keys.table[t] = lookup.table[t].value, from.keys.channel[t] = lookup.channel[t];
    from.normalised = normalised, from.norm = normalize.norm, from.eps = normalize.eps;
    const Out<Real>& out = normalize.y;
    run_cpu(exec, TableFeaturesForward<Real>{from, out.value, normalize.inverse.value});
    run_cpu(exec, TableFeaturesBackward<Real>{from, normalize.inverse.value, out.gradient, lookup.y.gradient,
                                              out.value});
  }
  int p;
  bool normalised;
  Lookup<Real> lookup;
  MapFeatures<Real> phi;
  Normalize<Real> normalize;
  Arena arena{Device::cpu};
};

template <class Real>
void check_bits(int nu, int norm, int N, int d) {
  OnCpu<Real> want(nu, norm, N, d);
  want.chain();
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(fmt::format("nu {} norm {} N {} d {}, {} threads", nu, norm, N, d, threads));
    OnCpu<Real> got(nu, norm, N, d);
    got.fused(threads);
    got.arena.check_guards();
    const auto same = [&](const Tensor<Real>& a, const Tensor<Real>& b) {
      return got.arena.copy_of(a) == want.arena.copy_of(b);
    };
    EXPECT_TRUE(same(got.normalize.y.value, want.normalize.y.value));
    EXPECT_TRUE(same(got.normalize.inverse.value, want.normalize.inverse.value));
    EXPECT_TRUE(same(got.lookup.y.gradient, want.lookup.y.gradient));
    EXPECT_GT(magnitude(got.lookup.y.gradient.at(0), got.lookup.y.gradient.size()), 0);
  }
}

TEST(TableFeaturesOnCpu, BitsAreThoseOfTheChain) {
  for (const int nu : {1, 2, 11}) {
    for (const int norm : {-1, 0, 1}) {
      for (const auto& [N, d] : {std::pair{1, 7}, {37, 16}, {300, 64}, {300, 7}}) {
        check_bits<float>(nu, norm, N, d);
        check_bits<double>(nu, norm, N, d);
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::table_features_test
