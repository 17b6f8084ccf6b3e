// The recurrence's read over features of table rows against the state itself, formed step by step from the
// formulas of both. SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/table_recurrence.h"

#include "kernels/testing/op_check.h"

namespace crosstalk::checks {
namespace {

constexpr int kTables = 2, kRows = 7;

struct Shape {
  int B, T, d;
  FeatureMap map;
  int nu;
  RowNorm norm;
};

/// Normalised phi of one row, from its formula in ops/feature_map.h.
std::vector<long double> features(const Shape& s, const std::vector<long double>& x, double eps) {
  std::vector<long double> y;
  const int w = 2 * s.d;
  const auto f = [&](int i) {
    const int c = (i + w) % w;
    return std::max(c < s.d ? x[static_cast<std::size_t>(c)] : -x[static_cast<std::size_t>(c - s.d)], 0.0L);
  };
  if (s.map == FeatureMap::dpfp) {
    for (int j = 1; j <= s.nu; ++j) {
      for (int i = 0; i < w; ++i) y.push_back(f(i) * f(i - j));
    }
  } else {
    for (long double e : x) y.push_back(s.map == FeatureMap::elu1 ? (e > 0 ? e + 1 : std::exp(e)) : e);
  }
  long double total = eps;
  for (long double e : y) total += s.norm == RowNorm::l2 ? e * e : e;
  for (long double& e : y) e /= s.norm == RowNorm::l2 ? std::sqrt(total) : total;
  return y;
}

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  const double eps = 0.5;  // a row of absent ids is 0, and so are DPFP's features of it
  const int p = s.map == FeatureMap::dpfp ? 2 * s.d * s.nu : s.d;
  op.integers("ids", {s.B, s.T, kTables}, integer_in(-1, kRows - 1));
  for (int i = 0; i < kTables; ++i) {  // sums stay away from 0, where DPFP has a kink
    op.input(fmt::format("table{}", i), {kRows, s.d}, [i](RandomStream& random, int, std::int64_t) {
      const double sign = random.uniform() < 0.5 ? -1 : 1;
      return sign * (2 + random.uniform()) * std::pow(0.25, i);
    });
  }
  op.input("q", {s.B, 1, p}, normal());
  for (const char* gate : {"write", "erase"}) op.input(gate, {s.B, s.T}, uniform(0.1, 1));
  op.integers("position", {s.B, 1}, positions(s.T));
  op.output("a", {s.B, 1, s.T});
  op.workspace("trail", {s.B, p + (s.T + 3) / 4 * 4}).workspace("d_x", {s.B, s.T, s.d});
  const auto from = [=](auto& set) {
    using Real = std::remove_pointer_t<decltype(set.real("q").data)>;
    TableFeatures<Real> a;
    a.keys.map = s.map, a.keys.nu = s.nu, a.normalised = true, a.norm = s.norm, a.eps = eps;
    a.keys.ids = set.integer("ids");
    a.keys.tables = kTables;
    for (int i = 0; i < kTables; ++i)
      a.keys.table[i] = set.real(fmt::format("table{}", i)), a.keys.channel[i] = i;
    return a;
  };
  op.forward([=](const Exec& exec, auto& set) {
    TableRecurrenceForward args{from(set), {}};
    args.read.q = set.real("q"), args.read.write = set.real("write"), args.read.erase = set.real("erase");
    args.read.a = set.real("a"), args.read.position = set.integer("position");
    args.read.trail = set.real("trail");
    run(exec, args);
  });
  op.backward([=](const Exec& exec, auto& set) {
    TableRecurrenceBackward args{from(set), {}, set.real("d_x")};
    auto& read = args.read;
    read.q = set.real("q"), read.write = set.real("write"), read.erase = set.real("erase");
    read.d_a = set.real("d_a"), read.position = set.integer("position"), read.trail = set.real("trail");
    read.d_q = set.real("d_q"), read.d_write = set.real("d_write"), read.d_erase = set.real("d_erase");
    read.write_q = set.write("q"), read.write_write = set.write("write");
    read.write_erase = set.write("erase");
    run(exec, args);
    LookupBackward<std::remove_pointer_t<decltype(set.real("q").data)>> sums;
    sums.ids = set.integer("ids"), sums.d_y = set.real("d_x"), sums.tables = kTables;
    for (int i = 0; i < kTables; ++i) {
      sums.d_table[i] = set.real(fmt::format("d_table{}", i)), sums.channel[i] = i;
      sums.write_table[i] = set.write(fmt::format("table{}", i));
    }
    run(exec, sums);
  });
  op.oracle([=](const Values& in) {
    Values out;
    const auto T = static_cast<std::size_t>(s.T), P = static_cast<std::size_t>(p);
    for (std::size_t b = 0; b < static_cast<std::size_t>(s.B); ++b) {
      std::vector<long double> state(T * P, 0);  // row i holds what value i was bound to
      const auto seen = static_cast<std::size_t>(in.integer.at("position")[b]);
      for (std::size_t t = 0; t < seen; ++t) {
        std::vector<long double> x(static_cast<std::size_t>(s.d), 0);
        for (std::size_t n = 0; n < kTables; ++n) {
          const int id = in.integer.at("ids")[(b * T + t) * kTables + n];
          for (std::size_t j = 0; j < x.size() && id >= 0; ++j)
            x[j] += in[fmt::format("table{}", n)][static_cast<std::size_t>(id) * x.size() + j];
        }
        const auto k = features(s, x, eps);
        for (std::size_t i = 0; i <= t; ++i) {
          long double bound = 0;
          for (std::size_t j = 0; j < P; ++j) bound += state[i * P + j] * k[j];
          const long double change = (i == t ? in["write"][b * T + t] : 0) - in["erase"][b * T + t] * bound;
          for (std::size_t j = 0; j < P; ++j) state[i * P + j] += change * k[j];
        }
      }
      for (std::size_t i = 0; i < T; ++i) {
        long double sum = 0;
        for (std::size_t j = 0; j < P; ++j) sum += state[i * P + j] * in["q"][b * P + j];
        out.real["a"].push_back(static_cast<double>(sum));
      }
    }
    return out;
  });
  return op.roundings(3.0 * s.T + 3 * p).condition(4).gradient_elements(60);
}

std::vector<OpCase> cases() {
  using M = FeatureMap;
  return {make("Dpfp1Sum", {4, 9, 64, M::dpfp, 1, RowNorm::sum}),
          make("Dpfp1L2", {2, 35, 64, M::dpfp, 1, RowNorm::l2}),
          make("Dpfp2Sum", {2, 33, 64, M::dpfp, 2, RowNorm::sum}),
          make("Elu1Sum", {3, 20, 64, M::elu1, 1, RowNorm::sum}),
          make("IdentityL2", {4, 40, 64, M::identity, 1, RowNorm::l2}),
          make("OneToken", {3, 1, 64, M::dpfp, 1, RowNorm::sum})};
}

INSTANTIATE_TEST_SUITE_P(TableRecurrence, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
