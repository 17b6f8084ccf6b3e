// All monomials up to degree n of a row, weighted: maps whose product phi(q).phi(k) is a polynomial of q.k.
//
// With x_0 = 1 they are the products x_{i_1} ... x_{i_n}, d >= i_1 >= ... >= i_n >= 0: C(d + n, n) of them,
// in the order of the last index first, (0,0), (1,0), (1,1), (2,0), ... The number of (i_1, ..., i_n) is the
// sum of C(i_k + n - k, n - k + 1).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/feature_map/maps/map_file.h"

namespace crosstalk::maps {

constexpr int kMostDegree = 8;

/// C(i + r - 1, r): multisets of r things of i kinds.
CT_HD inline std::int64_t multisets(std::int64_t i, int r) {
  std::int64_t count = 1;
  for (int s = 1; s <= r; ++s) count = count * (i - 1 + s) / s;
  return count;
}

struct Monomial {
  int n = 0, index[kMostDegree] = {};  ///< i_1 >= i_2 >= ...

  CT_HD Monomial(int degree, int d, std::int64_t number) : n(degree) {
    for (int k = 0; k < n; ++k) {
      int low = 0, high = d;  // the largest i with multisets(i, n - k) <= number
      while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (multisets(middle, n - k) <= number)
          low = middle;
        else
          high = middle - 1;
      }
      index[k] = low;
      number -= multisets(low, n - k);
    }
  }
  CT_HD void next() {
    int k = n - 1;
    while (k > 0 && index[k] == index[k - 1]) index[k--] = 0;
    ++index[k];
  }
};

/// Weight gives phi its factors: `weight(factor k, index i_k, how many of the same so far, n)`, whose
/// product's root it is.
template <class Weight>
struct Monomials : RowMap {
  static std::int64_t width(std::int64_t d, int n, std::int64_t) { return multisets(d + 1, n); }
  CT_HD static std::int64_t work(std::int64_t d, int lanes) { return lanes == 1 ? 0 : d * lanes; }

  template <class Team, class Real>
  CT_HD static void forward(const Team& team, const MapRow<Real>& row, Real* y) {
    if constexpr (Team::kLanes > 1) {
      if (row.number == 2) return Pairs<Real>().forward(team, row, y);
    }
    int begin = 0, end = 0;
    piece(team, row, begin, end);
    if (begin == end) return;
    Monomial at(row.number, row.d, begin);
    for (int i = begin; i < end; ++i, at.next()) {
      Real product = root_of_weight<Real>(at);
      for (int k = 0; k < at.n; ++k) product *= at.index[k] == 0 ? Real(1) : row.x[at.index[k] - 1];
      y[i] = product;
    }
  }

  // Each lane adds up its monomials into a gradient of its own; these are then added in order.
  template <class Team, class Real>
  CT_HD static void backward(const Team& team, const MapRow<Real>& row, const Real*, const Real* d_y,
                             RowGradient<Real> d_x) {
    constexpr bool kAlone = Team::kLanes == 1;
    if constexpr (!kAlone) {
      if (row.number == 2) return Pairs<Real>().backward(team, row, d_y, d_x);
    }
    const int d = row.d;
    Real* own = kAlone ? d_x.d_x : row.work + team.lane * d;
    team.sync();
    if (!kAlone || d_x.mode == Write::overwrite)
      for (int i = 0; i < d; ++i) own[i] = 0;
    int begin = 0, end = 0;
    piece(team, row, begin, end);
    if (begin < end) {
      Monomial at(row.number, d, begin);
      for (int i = begin; i < end; ++i, at.next()) {
        const Real weighted = d_y[i] * root_of_weight<Real>(at);
        for (int k = 0; k < at.n; ++k) {
          if (at.index[k] == 0) continue;
          Real others = weighted;
          for (int l = 0; l < at.n; ++l)
            others *= l == k || at.index[l] == 0 ? Real(1) : row.x[at.index[l] - 1];
          own[at.index[k] - 1] += others;
        }
      }
    }
    if (kAlone) return;
    team.sync();
    team.each(0, d, [&](int i) {
      Real sum = 0;
      for (int lane = 0; lane < Team::kLanes; ++lane) sum += row.work[lane * d + i];
      d_x(i, sum);
    });
  }

  static std::int64_t resolve(MapSetting& s) {
    std::int64_t n = s.whole("degree");
    if (n == 0) {
      n = 2;
      if (s.d_dot != 0)
        for (n = 1; n < kMostDegree && multisets(s.d + 1, static_cast<int>(n)) < s.d_dot;) ++n;
    }
    s.set("degree", n);
    std::int64_t d_dot = 1;
    for (int r = 1; r <= n && d_dot <= kMostFeatures; ++r) d_dot = multisets(s.d + 1, r);
    if (d_dot > kMostFeatures) {
      s.refuse("degree", "memory.degree = " + std::to_string(n) + " with " + s.d_text + " = " +
                             std::to_string(s.d) +
                             " makes C(d_key + degree, degree) features, more than the " +
                             std::to_string(kMostFeatures) + " that are allowed");
    }
    return s.agreed(d_dot, "d_dot must be C(d_key + degree, degree)");
  }
  static int degree(const Options& options, std::int64_t) {
    return static_cast<int>(options.get_int("memory.degree"));
  }
  static bool even(const Options& options) { return options.get_int("memory.degree") % 2 == 0; }
  static OptionSpec degree_option() {
    return {"degree", std::int64_t{0},
            "degree n of taylor and power: d_dot = C(d_key + n, n) (0: 2, or from d_dot)", 0, kMostDegree};
  }

 private:
  static constexpr std::int64_t kMostFeatures = 1 << 20;
  template <class Team, class Real>
  CT_HD static void piece(const Team& team, const MapRow<Real>& row, int& begin, int& end) {
    const int size = (row.p + Team::kLanes - 1) / Team::kLanes;
    begin = size * team.lane < row.p ? size * team.lane : row.p;
    end = begin + size < row.p ? begin + size : row.p;
  }
  template <class Real>
  CT_HD static Real root_of_weight(const Monomial& at) {
    Real weight = 1;
    int same = 0;
    for (int k = 0; k < at.n; ++k) {
      same = k > 0 && at.index[k] == at.index[k - 1] ? same + 1 : 1;
      weight *= Weight::template factor<Real>(k + 1, at.index[k], same, at.n);
    }
    return std::sqrt(weight);
  }

  /// Degree 2 for lanes that share a row: monomial (i, j) is number i (i + 1) / 2 + j, neighbours in memory
  /// are made by neighbours, and each lane sums up the gradients of its own entries.
  template <class Real>
  struct Pairs {
    Real none, one, square, product;  ///< roots of the weights of (0,0), (i,0), (i,i), (i,j)

    CT_HD Pairs() : none(of(0, 0)), one(of(1, 0)), square(of(1, 1)), product(of(2, 1)) {}
    CT_HD static Real of(int i, int j) {
      Monomial at(2, 0, 0);
      at.index[0] = i, at.index[1] = j;
      return root_of_weight<Real>(at);
    }
    CT_HD Real root(int i, int j) const { return i == 0 ? none : j == 0 ? one : i == j ? square : product; }
    CT_HD static Real entry(const MapRow<Real>& row, int i) { return i == 0 ? Real(1) : row.x[i - 1]; }

    CT_HD void forward(const auto& team, const MapRow<Real>& row, Real* y) const {
      team.each(0, row.p, [&](int number) {
        int i = static_cast<int>((std::sqrt(8.0f * static_cast<float>(number) + 1.0f) - 1) / 2);
        while (i * (i + 1) / 2 > number) --i;
        while ((i + 1) * (i + 2) / 2 <= number) ++i;
        const int j = number - i * (i + 1) / 2;
        y[number] = root(i, j) * entry(row, i) * entry(row, j);
      });
    }
    CT_HD void backward(const auto& team, const MapRow<Real>& row, const Real* d_y,
                        RowGradient<Real> d_x) const {
      team.each(0, row.d, [&](int column) {
        const int i = column + 1;
        Real sum = 0;
        for (int j = 0; j <= row.d; ++j) {
          const int high = i > j ? i : j, low = i > j ? j : i;
          const Real once = d_y[high * (high + 1) / 2 + low] * root(high, low) * entry(row, j);
          sum += i == j ? 2 * once : once;
        }
        d_x(column, sum);
      });
    }
  };
};

}  // namespace crosstalk::maps
