// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/table_scores.h"

#include "kernels/testing/op_check.h"

namespace crosstalk::checks {
namespace {

struct Shape {
  int B, T, Q, d;
  std::vector<int> rows;  ///< of each table; table i is read with channel i
  int nu = 1, m = 0;
};

int dimension(FeatureMap map, const Shape& s) { return map_width(map, s.d, s.nu, s.m); }

/// phi of one key x with z = O x, as the formulas of feature_map/feature_map.h say.
std::vector<long double> features(FeatureMap map, const Shape& s, const std::vector<long double>& x,
                                  const std::vector<long double>& z) {
  std::vector<long double> phi;
  const auto d = static_cast<std::size_t>(s.d);
  long double square = 0;
  for (const long double e : x) square += e * e;
  const auto p = static_cast<long double>(dimension(map, s));
  if (map == FeatureMap::dpfp) {
    const auto f = [&](std::size_t i) { return i < d ? std::max(x[i], 0.0L) : std::max(-x[i - d], 0.0L); };
    for (std::size_t j = 1; j <= static_cast<std::size_t>(s.nu); ++j) {
      for (std::size_t i = 0; i < 2 * d; ++i) phi.push_back(f(i) * f((i + 2 * d - j) % (2 * d)));
    }
  } else if (map == FeatureMap::favor) {
    for (const long double e : z) phi.push_back(std::exp(e - square / 2) / std::sqrt(p));
    for (std::size_t i = 0; s.nu == 2 && i < z.size(); ++i)
      phi.push_back(std::exp(-z[i] - square / 2) / std::sqrt(p));
  } else {
    for (const long double e : x) {
      phi.push_back(map == FeatureMap::elu1   ? (e > 0 ? e + 1 : std::exp(e))
                    : map == FeatureMap::relu ? std::max(e, 0.0L)
                    : map == FeatureMap::tanh ? 1 - 2 / (std::exp(2 * e) + 1)
                    : map == FeatureMap::silu ? e / (1 + std::exp(-e))
                    : map == FeatureMap::exp  ? std::exp(e)
                                              : e);
    }
  }
  return phi;
}

/// Entries of table i, such that no sum of one row of each comes near 0, where maps have kinks.
Fill apart(int i, double scale) {
  const double low[] = {0.8, 0.2, 0.05}, high[] = {1.4, 0.35, 0.15};
  return [=](RandomStream& random, int, std::int64_t) {
    const double size = low[i] + (high[i] - low[i]) * random.uniform();
    return scale * (random.below(2) ? size : -size);
  };
}

std::string indexed(const char* name, int i) { return fmt::format("{}{}", name, i); }

template <class Set>
auto keys_of(const Set& s, FeatureMap map, const Shape& shape) {
  using Real = std::remove_pointer_t<decltype(s.real("q").data)>;
  TableKeys<Real> keys;
  keys.map = map, keys.nu = shape.nu;
  keys.ids = s.integer("ids");
  keys.tables = static_cast<int>(shape.rows.size());
  for (int i = 0; i < keys.tables; ++i) {
    keys.table[i] = s.real(indexed("table", i));
    keys.projected[i] = s.real(indexed("projected", i));
    keys.channel[i] = i;
  }
  return keys;
}

OpCase make(const std::string& name, FeatureMap map, const Shape& s) {
  OpCase op(name);
  const int tables = static_cast<int>(s.rows.size()), C = std::max(tables, 2), p = dimension(map, s);
  const int most = *std::min_element(s.rows.begin(), s.rows.end());
  const double scale = 0.7;
  op.integers("ids", {s.B, s.T, C}, integer_in(-1, most - 1));
  op.integers("position", {s.B, s.Q}, positions(s.T));
  op.input("query", {s.B, s.Q, s.d}, off_zero(s.m ? 0.5 : 1));
  if (s.m) {
    op.parameter("omega", {s.m, s.d}, normal(0.6));
  } else {
    op.absent("omega");
  }
  op.workspace("q", {s.B, s.Q, p}).workspace("d_q", {s.B, s.Q, p});
  for (int i = 0; i < tables; ++i) {
    op.input(indexed("table", i), {s.rows[static_cast<std::size_t>(i)], s.d}, apart(i, s.m ? 0.5 : 1));
    if (s.m) {
      op.input(indexed("projected", i), {s.rows[static_cast<std::size_t>(i)], s.m}, normal(0.6));
    } else {
      op.absent(indexed("projected", i));
    }
    op.integer_output(indexed("order", i), {s.B * s.T});
    op.integer_output(indexed("start", i), {s.rows[static_cast<std::size_t>(i)] + 1});
  }
  op.output("a", {s.B, s.Q, s.T});
  if (s.m) {
    op.workspace("shift", {s.B, s.T});
  } else {
    op.absent("shift");
  }
  op.forward([=](const Exec& exec, auto& set) {
    using Real = std::remove_pointer_t<decltype(set.real("q").data)>;
    for (int i = 0; i < tables; ++i) {
      run(exec, BucketIds<Real>{set.integer("ids"), i, 1, set.integer(indexed("order", i)),
                                set.integer(indexed("start", i))});
    }
    run(exec,
        TableScoresForward<Real>{keys_of(set, map, s), scale, set.real("query"), set.real("omega"),
                                 set.real("q"), set.real("a"), set.real("shift"), set.integer("position")});
  });
  op.backward([=](const Exec& exec, auto& set) {
    using Real = std::remove_pointer_t<decltype(set.real("q").data)>;
    TableScoresBackward<Real> args;
    args.keys = keys_of(set, map, s);
    args.scale = scale;
    args.query = set.real("query"), args.omega = set.real("omega");
    args.q = set.real("q"), args.a = set.real("a"), args.shift = set.real("shift");
    args.d_a = set.real("d_a");
    args.position = set.integer("position");
    args.d_q = set.real("d_q");
    args.d_query = set.real("d_query"), args.write_query = set.write("query");
    for (int i = 0; i < tables; ++i) {
      args.order[i] = set.integer(indexed("order", i)), args.start[i] = set.integer(indexed("start", i));
      args.d_table[i] = set.real(indexed("d_table", i)), args.write_table[i] = set.write(indexed("table", i));
      args.d_projected[i] = set.real(indexed("d_projected", i));
      args.write_projected[i] = set.write(indexed("projected", i));
    }
    run(exec, args);
  });
  op.oracle([=](const Values& in) {
    Values out;
    const auto& ids = in.integer.at("ids");
    for (int i = 0; i < tables; ++i) {
      auto &order = out.integer[indexed("order", i)], &start = out.integer[indexed("start", i)];
      for (int row = 0; row < s.rows[static_cast<std::size_t>(i)]; ++row) {
        start.push_back(static_cast<int>(order.size()));
        for (int n = 0; n < s.B * s.T; ++n) {
          if (ids[static_cast<std::size_t>(n * C + i)] == row) order.push_back(n);
        }
      }
      start.push_back(static_cast<int>(order.size()));
      order.resize(static_cast<std::size_t>(s.B * s.T), -1);  // absent ids leave the end as it was: poisoned
    }
    const auto sum = [&](const char* table, int n, int columns) {
      std::vector<long double> x(static_cast<std::size_t>(columns), 0);
      for (int i = 0; i < tables; ++i) {
        const int id = ids[static_cast<std::size_t>(n * C + i)];
        for (int j = 0; j < columns && id >= 0; ++j)
          x[static_cast<std::size_t>(j)] += in[indexed(table, i)][static_cast<std::size_t>(id * columns + j)];
      }
      return x;
    };
    for (int i = 0; i < s.B * s.Q; ++i) {
      std::vector<long double> query, z;
      for (int j = 0; j < s.d; ++j) query.push_back(in["query"][static_cast<std::size_t>(i * s.d + j)]);
      for (int k = 0; k < s.m; ++k) {
        z.push_back(0);
        for (int j = 0; j < s.d; ++j)
          z.back() += in["omega"][static_cast<std::size_t>(k * s.d + j)] * query[static_cast<std::size_t>(j)];
      }
      const auto q = features(map, s, query, z);
      for (int t = 0; t < s.T; ++t) {
        const int n = i / s.Q * s.T + t;
        const auto phi = features(map, s, sum("table", n, s.d), sum("projected", n, s.m));
        long double a = 0;
        for (std::size_t j = 0; j < phi.size(); ++j) a += phi[j] * q[j];
        const bool seen = t < in.integer.at("position")[static_cast<std::size_t>(i)];
        out.real["a"].push_back(seen ? static_cast<double>(scale * a) : 0);
      }
    }
    return out;
  });
  return op.roundings(s.d + p + s.T + 8).condition(s.m ? 4 : 1).gradient_elements(60);
}

std::vector<OpCase> cases() {
  using M = FeatureMap;
  return {make("Identity", M::identity, {3, 5, 1, 7, {4, 3}}),
          make("Elu1", M::elu1, {3, 5, 1, 8, {4, 3}}),
          make("Relu", M::relu, {2, 6, 3, 5, {4, 6}}),
          make("Tanh", M::tanh, {2, 6, 1, 33, {4, 3, 4}}),
          make("Dpfp1", M::dpfp, {3, 7, 1, 8, {4, 3}}),
          make("Dpfp2", M::dpfp, {2, 5, 3, 7, {4, 5, 4}, 2}),
          make("Dpfp3", M::dpfp, {2, 6, 1, 32, {4, 3}, 3}),
          make("Dpfp3Wide", M::dpfp, {2, 9, 1, 64, {4, 3}, 3}),
          make("DpfpTwoColumns", M::dpfp, {2, 6, 1, 2, {4, 3}, 3}),
          make("DpfpOneColumn", M::dpfp, {2, 4, 2, 1, {4, 3}, 1}),
          make("Silu", M::silu, {2, 6, 2, 33, {4, 3, 4}}),
          make("Exp", M::exp, {3, 5, 1, 8, {4, 3}}),
          make("OneTable", M::elu1, {2, 6, 1, 5, {4}}),
          make("OneToken", M::elu1, {1, 1, 1, 3, {2, 2}}),
          make("LongLists", M::elu1, {3, 90, 1, 6, {2, 5}}),
          make("LongListsDpfp", M::dpfp, {3, 60, 1, 10, {2, 5}, 2}),
          make("Wide", M::tanh, {2, 7, 2, 100, {4, 3}}),
          make("FavorHyperbolic", M::favor, {3, 6, 1, 5, {4, 3}, 2, 4}),
          make("FavorPositive", M::favor, {2, 6, 3, 4, {4, 5, 4}, 1, 7}),
          make("FavorMany", M::favor, {2, 5, 1, 33, {4, 3}, 2, 70})};
}

INSTANTIATE_TEST_SUITE_P(TableScores, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
