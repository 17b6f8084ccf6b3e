// Features of looked-up keys against their chain on the CPU: lookup, feature map, normalisation.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/table_features.h"

#include <algorithm>
#include <cmath>

#include "kernels/testing/op_check.h"

namespace crosstalk::checks::table_features_test {
namespace {

struct Shape {
  FeatureMap map;
  int nu, d, norm;  ///< norm: -1 none, 0 sum, 1 l2
  int N = 701;
  std::vector<int> rows = {40, 53}, channel = {1, 0};
  bool absent = false;  ///< some ids; eps is then large, as the features of a zero key are 0
};

template <class Real>
Lookup<Real> lookup_of(const TensorSet<Real>& s, const Shape& shape) {
  Lookup<Real> op;
  op.tables = static_cast<int>(shape.rows.size());
  op.ids.value = s.integer("ids");
  for (int i = 0; i < op.tables; ++i) {
    const std::string table = fmt::format("table{}", i);
    op.channel[i] = shape.channel[i];
    op.table[i].value = s.real(table), op.table[i].gradient = s.real("d_" + table),
    op.table[i].write = s.write(table);
    op.order[i].value = s.integer(fmt::format("order{}", i)),
    op.start[i].value = s.integer(fmt::format("start{}", i));
  }
  op.y.value = s.real("x"), op.y.gradient = s.real("d_x");
  return op;
}

template <class Real>
Normalize<Real> norm_of(const TensorSet<Real>& s, const Shape& shape) {
  Normalize<Real> op;
  op.norm = shape.norm == 1 ? RowNorm::l2 : RowNorm::sum, op.eps = shape.absent ? 0.5 : 1e-6;
  op.x.value = s.real("phi"), op.x.gradient = s.real("d_phi"), op.x.write = Write::overwrite;
  op.y.value = s.real("y"), op.y.gradient = s.real("d_y"), op.inverse.value = s.real("inverse");
  return op;
}

template <class Real>
TableFeatures<Real> fused_of(const TensorSet<Real>& s, const Shape& shape) {
  const Lookup<Real> lookup = lookup_of(s, shape);
  const Normalize<Real> norm = norm_of(s, shape);
  TableFeatures<Real> op;
  op.keys.map = shape.map, op.keys.nu = shape.nu, op.keys.ids = lookup.ids.value,
  op.keys.tables = lookup.tables;
  for (int i = 0; i < lookup.tables; ++i)
    op.keys.table[i] = lookup.table[i].value, op.keys.channel[i] = lookup.channel[i];
  op.normalised = shape.norm >= 0, op.norm = norm.norm, op.eps = norm.eps;
  return op;
}

OpCase make(const std::string& name, const Shape& shape) {
  OpCase op(name);
  const int N = shape.N, d = shape.d, p = map_width(shape.map, d, shape.nu, 0),
            C = static_cast<int>(shape.rows.size()),
            most = *std::min_element(shape.rows.begin(), shape.rows.end());
  const bool normalised = shape.norm >= 0;
  op.integers("ids", {N, C}, integer_in(shape.absent ? -1 : 0, most - 1));
  for (int i = 0; i < C; ++i) {
    const int rows = shape.rows[i];
    op.input(fmt::format("table{}", i), {rows, d}, uniform(-1, 1));
    op.workspace_of_integers(fmt::format("order{}", i), {N})
        .workspace_of_integers(fmt::format("start{}", i), {rows + 1});
  }
  op.output("y", {N, p}).output_without_gradient("d_x", {N, d});
  op.workspace("x", {N, d}).workspace("phi", {N, p}).workspace("d_phi", {N, p});
  normalised ? op.output_without_gradient("inverse", {N}) : op.workspace("inverse", {N});
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
    const Lookup<Real> lookup = lookup_of(s, shape);
    if (exec.device == Device::cuda) {
      for (int i = 0; i < C; ++i)
        run(exec, BucketIds<Real>{lookup.ids.value, lookup.channel[i], 1, lookup.order[i].value,
                                  lookup.start[i].value});
      run_cuda(exec, TableFeaturesForward<Real>{fused_of(s, shape), s.real("y"), s.real("inverse")});
      return;
    }
    forward(exec, lookup);
    forward(exec,
            MapFeatures<Real>{shape.map, shape.nu, {s.real("x")}, {}, {s.real(normalised ? "phi" : "y")}});
    if (normalised) forward(exec, norm_of(s, shape));
  });
  op.backward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
    if (exec.device == Device::cuda) {
      run_cuda(exec, TableFeaturesBackward<Real>{fused_of(s, shape), s.real("inverse"), s.real("d_y"),
                                                 s.real("d_x"), s.real("y")});
    } else {
      if (normalised) backward(exec, norm_of(s, shape));
      const Out<Real> y{s.real(normalised ? "phi" : "y"), s.real(normalised ? "d_phi" : "d_y")};
      backward(exec,
               MapFeatures<Real>{shape.map, shape.nu, {s.real("x"), s.real("d_x"), Write::overwrite}, {}, y});
    }
    backward(exec, lookup_of(s, shape));
  });
  return op.on_cuda({1.0 * p, 1}, {1.0 * p, 4});
}

std::vector<OpCase> cases() {
  using M = FeatureMap;
  std::vector<Shape> shapes = {{M::dpfp, 1, 64, 0},     {M::dpfp, 3, 64, -1}, {M::dpfp, 2, 32, 1},
                               {M::elu1, 1, 64, 0},     {M::tanh, 1, 64, -1}, {M::relu, 1, 32, 1},
                               {M::identity, 1, 32, 1}, {M::dpfp, 8, 64, 0},  {M::dpfp, 31, 32, 0},
                               {M::dpfp, 2, 128, 1},    {M::elu1, 1, 32, 1},  {M::relu, 1, 128, 0},
                               {M::silu, 1, 64, 1},     {M::exp, 1, 32, 0}};
  const auto small = [&](M map, int nu, int norm, int N, int d, const std::vector<int>& rows) {
    std::vector<int> channel(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) channel[i] = static_cast<int>(i);
    shapes.push_back({map, nu, d, norm, N, rows, channel, true});
  };
  for (const int norm : {-1, 0, 1}) {
    small(M::dpfp, 1, norm, 9, 32, {4, 3});
    small(M::dpfp, 3, norm, 7, 32, {5, 4, 5});
    small(M::elu1, 1, norm, 9, 32, {4, 3});
    small(M::dpfp, 2, norm, 70, 64, {11, 9});
    small(M::relu, 1, norm, 7, 32, {5, 4, 5});
  }
  small(M::tanh, 1, -1, 7, 32, {5, 4, 5});
  small(M::tanh, 1, 1, 70, 128, {11, 9});
  small(M::identity, 1, -1, 9, 64, {4, 3});
  small(M::identity, 1, 1, 70, 128, {11, 9});
  std::vector<OpCase> all;
  for (const Shape& s : shapes) {
    const char* norms[] = {"none", "sum", "l2"};
    all.push_back(
        make(fmt::format("{}_nu{}_{}x{}_{}", static_cast<int>(s.map), s.nu, s.N, s.d, norms[s.norm + 1]), s));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(TableFeatures, CudaOpCheck, ::testing::ValuesIn(cases()), case_name);

/// Two replicas of N tokens' keys, by the chain (x and phi in memory) or by the op.
template <class Real>
struct OnCpu {
  OnCpu(FeatureMap map, int nu, int norm, int N, int d) : p(map_width(map, d, nu, 0)), normalised(norm >= 0) {
    lookup.tables = 2, phi.map = map, phi.number = nu;
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
void check_bits(FeatureMap map, int nu, int norm, int N, int d) {
  OnCpu<Real> want(map, nu, norm, N, d);
  want.chain();
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(fmt::format("map {} nu {} norm {} N {} d {}, {} threads", static_cast<int>(map), nu, norm, N,
                             d, threads));
    OnCpu<Real> got(map, nu, norm, N, d);
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
  using M = FeatureMap;
  for (const auto& [map, nu] : {std::pair{M::dpfp, 1},
                                {M::dpfp, 3},
                                {M::dpfp, 11},
                                {M::elu1, 1},
                                {M::tanh, 1},
                                {M::exp, 1},
                                {M::relu, 1},
                                {M::silu, 1},
                                {M::identity, 1}}) {
    for (const int norm : {-1, 0, 1}) {
      for (const auto& [N, d] : {std::pair{1, 7}, {37, 16}, {300, 64}, {300, 7}}) {
        check_bits<float>(map, nu, norm, N, d);
        check_bits<double>(map, nu, norm, N, d);
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::table_features_test
