// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/table_features.h"

#include "kernels/testing/op_check.h"

namespace crosstalk::checks {
namespace {

struct Shape {
  int N, C, d;
  std::vector<int> rows, channel;
};

/// phi of one row, from its formula in feature_map/feature_map.h.
Numbers features(FeatureMap map, int nu, const Numbers& x) {
  Numbers y, f;
  const int d = static_cast<int>(x.size()), w = 2 * d;
  for (double e : x) {
    if (map == FeatureMap::elu1) y.push_back(e > 0 ? e + 1 : std::exp(e));
    if (map == FeatureMap::relu) y.push_back(std::max(e, 0.0));
    if (map == FeatureMap::tanh) y.push_back(std::tanh(e));
    if (map == FeatureMap::silu) y.push_back(e / (1 + std::exp(-e)));
    if (map == FeatureMap::exp) y.push_back(std::exp(e));
  }
  if (map == FeatureMap::identity) return x;
  if (map != FeatureMap::dpfp) return y;
  for (int i = 0; i < w; ++i)
    f.push_back(std::max(i < d ? x[static_cast<std::size_t>(i)] : -x[static_cast<std::size_t>(i - d)], 0.0));
  for (int j = 1; j <= nu; ++j) {
    for (int i = 0; i < w; ++i)
      y.push_back(f[static_cast<std::size_t>(i)] * f[static_cast<std::size_t>((i - j + w) % w)]);
  }
  return y;
}

/// Entries of table i: whichever tables a row takes, its sum stays away from 0, where DPFP and relu have
/// kinks.
Fill far_from_kinks(int i) {
  return [i](RandomStream& random, int, std::int64_t) {
    const double sign = random.uniform() < 0.5 ? -1 : 1;
    return sign * (2 + random.uniform()) * std::pow(0.25, i);
  };
}

OpCase make(const std::string& name, const Shape& shape, FeatureMap map, int nu, int norm, double eps) {
  OpCase op(name);
  const int tables = static_cast<int>(shape.rows.size()), d = shape.d, N = shape.N, C = shape.C;
  const int p = map == FeatureMap::dpfp ? 2 * d * nu : d;
  const int most = *std::min_element(shape.rows.begin(), shape.rows.end());
  op.integers("ids", {N, C}, integer_in(-1, most - 1));
  for (int i = 0; i < tables; ++i)
    op.input(fmt::format("table{}", i), {shape.rows[static_cast<std::size_t>(i)], d}, far_from_kinks(i));
  op.output("y", {N, p}).workspace("inverse", {N}).workspace("d_x", {N, d});
  const auto from = [=](auto& s) {
    using Real = std::remove_pointer_t<decltype(s.real("y").data)>;
    TableFeatures<Real> a;
    a.keys.map = map, a.keys.nu = nu, a.normalised = norm >= 0,
    a.norm = norm == 1 ? RowNorm::l2 : RowNorm::sum, a.eps = eps;
    a.keys.ids = s.integer("ids");
    a.keys.tables = tables;
    for (int i = 0; i < tables; ++i) {
      a.keys.table[i] = s.real(fmt::format("table{}", i));
      a.keys.channel[i] = shape.channel[static_cast<std::size_t>(i)];
    }
    return a;
  };
  op.forward([=](const Exec& exec, auto& s) {
    run(exec, TableFeaturesForward{from(s), s.real("y"), s.real("inverse")});
  });
  op.backward([=](const Exec& exec, auto& s) {
    using Real = std::remove_pointer_t<decltype(s.real("y").data)>;
    run(exec, TableFeaturesBackward{from(s), s.real("inverse"), s.real("d_y"), s.real("d_x")});
    Lookup<Real> args;
    args.ids.value = s.integer("ids");
    args.tables = tables;
    for (int i = 0; i < tables; ++i) {
      args.table[i].gradient = s.real(fmt::format("d_table{}", i));
      args.table[i].write = s.write(fmt::format("table{}", i));
      args.channel[i] = shape.channel[static_cast<std::size_t>(i)];
    }
    args.y.gradient = s.real("d_x");
    backward(exec, args);
  });
  op.oracle([=](const Values& in) {
    Values out;
    for (int n = 0; n < N; ++n) {
      Numbers x(static_cast<std::size_t>(d), 0.0);
      for (int i = 0; i < tables; ++i) {
        const int id = in.integer.at(
            "ids")[static_cast<std::size_t>(n * C + shape.channel[static_cast<std::size_t>(i)])];
        for (int j = 0; j < d && id >= 0; ++j)
          x[static_cast<std::size_t>(j)] +=
              in[fmt::format("table{}", i)][static_cast<std::size_t>(id * d + j)];
      }
      Numbers y = features(map, nu, x);
      long double total = eps;
      for (double e : y) total += norm == 1 ? static_cast<long double>(e) * e : e;
      for (double& e : y) {
        if (norm >= 0) e = static_cast<double>(e / (norm == 1 ? std::sqrt(total) : total));
        out.real["y"].push_back(e);
      }
    }
    return out;
  });
  return op.roundings(N + p + 8).gradient_elements(300);
}

std::vector<OpCase> cases() {
  using M = FeatureMap;
  const Shape two{9, 2, 5, {4, 3}, {0, 1}}, three{7, 3, 6, {5, 4, 5}, {0, 1, 2}},
      wide{70, 2, 36, {11, 9}, {0, 1}};
  // eps: a row of absent ids is 0, and so is the sum of its features.
  std::vector<OpCase> all;
  for (const auto& [label, norm] : {std::pair{"None", -1}, std::pair{"Sum", 0}, std::pair{"L2", 1}}) {
    all.push_back(make(fmt::format("Dpfp1{}", label), two, M::dpfp, 1, norm, 0.5));
    all.push_back(make(fmt::format("Dpfp3{}", label), three, M::dpfp, 3, norm, 0.5));
    all.push_back(make(fmt::format("Elu1{}", label), two, M::elu1, 1, norm, 0));
    all.push_back(make(fmt::format("Wide{}", label), wide, M::dpfp, 2, norm, 0.5));
    all.push_back(make(fmt::format("Relu{}", label), three, M::relu, 1, norm, 0.5));
  }
  all.push_back(make("Tanh", three, M::tanh, 1, -1, 0));
  all.push_back(make("TanhL2", wide, M::tanh, 1, 1, 0.5));
  all.push_back(make("Identity", two, M::identity, 1, -1, 0));
  all.push_back(make("IdentityL2", wide, M::identity, 1, 1, 0.5));
  return all;
}

INSTANTIATE_TEST_SUITE_P(TableFeatures, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
