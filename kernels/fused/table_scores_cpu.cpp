// The plain form: each token's key and features are made where they are needed, one token at a time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/table_scores.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

/// phi and g phi' of entries; other maps are not entry maps.
template <class Real>
Real entry(FeatureMap map, Real x) {
  return visit_map(map, [&]<class Map>() {
    if constexpr (Map::kFamily != maps::Family::entry) {
      return Real(0);
    } else if constexpr (Map::kCore == maps::Core::exp) {
      return Map::value(x, std::exp(Map::argument(x)));
    } else if constexpr (Map::kCore == maps::Core::tanh) {
      return Map::value(x, std::tanh(Map::argument(x)));
    } else {
      return Map::value(x, x);
    }
  });
}
template <class Real>
Real entry_pull(FeatureMap map, Real x, Real y, Real g) {
  return visit_map(map, [&]<class Map>() {
    if constexpr (Map::kFamily == maps::Family::entry) {
      return Map::pull(x, y, g);
    } else {
      return Real(0);
    }
  });
}

/// Sum of the rows that token n chooses.
template <class Real>
void sum_rows(const TableKeys<Real>& keys, const Tensor<Real> (&table)[kMaxTables], int r, std::int64_t n,
              std::vector<Real>& x) {
  std::fill(x.begin(), x.end(), Real(0));
  for (int i = 0; i < keys.tables; ++i) {
    const std::int32_t id = keys.ids.at(r)[n * keys.ids.columns() + keys.channel[i]];
    const std::int64_t d = table[i].columns();
    if (id >= 0) axpy(Real(1), table[i].at(r) + id * d, x.data(), static_cast<int>(d));
  }
}

/// One token: its key x, z = O x, f = [relu(x); relu(-x)], phi, and what a gradient of phi is to x and z.
template <class Real>
struct Token {
  const TableKeys<Real>& keys;
  const int d, m, p;
  std::vector<Real> x, z, f, phi, d_x, d_z;
  Real shift = 0;  ///< of FAVOR+'s exponents

  Token(const TableKeys<Real>& k, int features)
      : keys(k),
        d(k.table[0].columns()),
        m(k.map == FeatureMap::favor ? k.projected[0].columns() : 0),
        p(features) {
    const auto size = [](int n) { return static_cast<std::size_t>(n); };
    x.resize(size(d)), d_x.resize(size(d)), z.resize(size(m)), d_z.resize(size(m));
    f.resize(size(2 * d)), phi.resize(size(p));
  }

  void make(int r, std::int64_t n) {
    sum_rows(keys, keys.table, r, n, x);
    Real* y = phi.data();
    if (is_entry_map(keys.map)) {
      for (Real e : x) *y++ = entry(keys.map, e);
    } else if (keys.map == FeatureMap::dpfp) {
      std::size_t i = 0;
      for (Real e : x) f[i++] = e < 0 ? Real(0) : e;
      for (Real e : x) f[i++] = e > 0 ? Real(0) : 0 - e;
      for (int j = 1; j <= keys.nu; ++j) {
        for (int k = 0; k < 2 * d; ++k) *y++ = f[static_cast<std::size_t>(k)] * f[before(k, j)];
      }
    } else {
      sum_rows(keys, keys.projected, r, n, z);
      shift = -std::log(static_cast<Real>(p)) / 2 - dot(x.data(), x.data(), d) / 2;
      for (Real u : z) *y++ = std::exp(u + shift);
      if (p == 2 * m) {
        for (Real u : z) *y++ = std::exp(shift - u);
      }
    }
  }
  /// d_x and d_z of weight g.phi; total = weight g.phi. After make().
  void pull_back(Real weight, const Real* g, Real total) {
    const auto n = static_cast<std::size_t>(d);
    if (is_entry_map(keys.map)) {
      for (std::size_t i = 0; i < n; ++i) d_x[i] = entry_pull(keys.map, x[i], phi[i], weight * g[i]);
    } else if (keys.map == FeatureMap::dpfp) {
      std::vector<Real> d_f(2 * n, Real(0));
      for (int j = 1; j <= keys.nu; ++j) {
        for (int k = 0; k < 2 * d; ++k, ++g) {
          d_f[static_cast<std::size_t>(k)] += *g * f[before(k, j)];
          d_f[before(k, j)] += *g * f[static_cast<std::size_t>(k)];
        }
      }
      for (std::size_t i = 0; i < n; ++i)
        d_x[i] = x[i] > 0 ? weight * d_f[i] : x[i] < 0 ? -weight * d_f[n + i] : Real(0);
    } else {
      for (std::size_t i = 0; i < n; ++i) d_x[i] = -total * x[i];
      for (int j = 0; j < m; ++j) {
        Real d_u = g[j] * phi[static_cast<std::size_t>(j)];
        if (p == 2 * m) d_u -= g[m + j] * phi[static_cast<std::size_t>(m + j)];
        d_z[static_cast<std::size_t>(j)] = weight * d_u;
      }
    }
  }

 private:
  std::size_t before(int k, int j) const {
    return static_cast<std::size_t>((k - j % (2 * d) + 2 * d) % (2 * d));
  }
};

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const TableScoresForward<Real>& a) {
  run_cpu(exec, FeatureMapForward<Real>{a.keys.map, a.keys.nu, a.query, a.omega, a.q});
  const int B = a.a.dim(0), Q = a.a.dim(1), T = a.a.dim(2), p = a.q.columns();
  parallel_items(exec, a.a.R, B, [&](int r, std::int64_t b) {
    Token<Real> token(a.keys, p);
    for (int t = 0; t < T; ++t) {
      token.make(r, b * T + t);
      if (a.shift) a.shift.at(r)[b * T + t] = token.shift;
      for (std::int64_t i = b * Q; i < (b + 1) * Q; ++i) {
        a.a.at(r)[i * T + t] = t < a.position.at(r)[i]
                                   ? static_cast<Real>(a.scale) * dot(a.q.at(r) + i * p, token.phi.data(), p)
                                   : Real(0);
      }
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const TableScoresBackward<Real>& a) {
  const int B = a.d_a.dim(0), Q = a.d_a.dim(1), T = a.d_a.dim(2), p = a.q.columns();
  const Real scale = static_cast<Real>(a.scale);
  if (a.write_query != Write::none) {
    parallel_items(exec, a.d_a.R, B, [&](int r, std::int64_t b) {
      Token<Real> token(a.keys, p);
      std::fill_n(a.d_q.at(r) + b * Q * p, static_cast<std::int64_t>(Q) * p, Real(0));
      for (int t = 0; t < T; ++t) {
        token.make(r, b * T + t);
        for (std::int64_t i = b * Q; i < (b + 1) * Q; ++i) {
          if (t < a.position.at(r)[i])
            axpy(scale * a.d_a.at(r)[i * T + t], token.phi.data(), a.d_q.at(r) + i * p, p);
        }
      }
    });
    run_cpu(exec, FeatureMapBackward<Real>{a.keys.map, a.keys.nu, a.query, a.omega, a.q, a.d_q, a.d_query,
                                           a.write_query});
  }
  for (int table = 0; table < a.keys.tables; ++table) {
    const Write mode = a.write_table[table], mode_z = a.write_projected[table];
    if (mode == Write::none && mode_z == Write::none) continue;
    parallel_items(exec, a.d_a.R, a.keys.table[table].rows(), [&](int r, std::int64_t row) {
      Token<Real> token(a.keys, p);
      std::vector<Real> d_x(token.x.size(), Real(0)), d_z(token.z.size(), Real(0));
      for (int k = a.start[table].at(r)[row]; k < a.start[table].at(r)[row + 1]; ++k) {
        const std::int64_t n = a.order[table].at(r)[k], b = n / T, t = n % T;
        token.make(r, n);
        for (std::int64_t i = b * Q; i < (b + 1) * Q; ++i) {
          if (t >= a.position.at(r)[i]) continue;
          const Real d_a = a.d_a.at(r)[i * T + t];
          token.pull_back(scale * d_a, a.q.at(r) + i * p, a.a ? d_a * a.a.at(r)[i * T + t] : Real(0));
          axpy(Real(1), token.d_x.data(), d_x.data(), token.d);
          axpy(Real(1), token.d_z.data(), d_z.data(), token.m);
        }
      }
      for (std::size_t i = 0; i < d_x.size() && mode != Write::none; ++i)
        put(mode, a.d_table[table].at(r) + row * token.d + static_cast<std::int64_t>(i), d_x[i]);
      for (std::size_t i = 0; i < d_z.size() && mode_z != Write::none; ++i)
        put(mode_z, a.d_projected[table].at(r) + row * token.m + static_cast<std::int64_t>(i), d_z[i]);
    });
  }
}

template void run_cpu(const Exec&, const TableScoresForward<float>&);
template void run_cpu(const Exec&, const TableScoresForward<double>&);
template void run_cpu(const Exec&, const TableScoresBackward<float>&);
template void run_cpu(const Exec&, const TableScoresBackward<double>&);

}  // namespace crosstalk
