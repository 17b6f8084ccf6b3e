// What a feature map's test brings: its oracle and the shapes to try; and rows of features for its laws. The checks that all
// maps pass are in feature_map/feature_map_test.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernels/feature_map/feature_map.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks {

/// d: width of the rows that the map gets; number: what it counts; m: rows of omega (FAVOR+).
struct MapShape {
  int d = 4, number = 1, m = 0;
};

struct MapOracle {
  /// phi of one row; omega [m,d].
  std::function<Numbers(const Numbers& x, int number, const Numbers& omega)> row;
  std::vector<MapShape> shapes;
};

/// By the map's name.
inline std::map<std::string, MapOracle>& map_oracles() {
  static std::map<std::string, MapOracle> all;
  return all;
}

/// Numbers d, number, m of shapes in braces: CROSSTALK_MAP_ORACLE(dpfp, dpfp, {5, 1}, {5, 3});
#define CROSSTALK_MAP_ORACLE(name, function, ...)    \
  [[maybe_unused]] const bool name##_has_an_oracle = \
      map_oracles().emplace(#name, MapOracle{function, {__VA_ARGS__}}).second

inline const char* name_of(FeatureMap map) {
#define CROSSTALK_NAME(name) \
  case FeatureMap::name:     \
    return #name;
  switch (map) { CROSSTALK_FEATURE_MAPS(CROSSTALK_NAME) }
#undef CROSSTALK_NAME
  return "";
}

inline std::vector<FeatureMap> every_map() {
#define CROSSTALK_LIST(name) FeatureMap::name,
  return {CROSSTALK_FEATURE_MAPS(CROSSTALK_LIST)};
#undef CROSSTALK_LIST
}

/// Features of rows of width d, one after the other.
inline Numbers features_of(FeatureMap map, int number, const Numbers& x, int d, const Numbers& omega = {}) {
  const int N = static_cast<int>(x.size()) / d, m = static_cast<int>(omega.size()) / d,
            p = map_width(map, d, number, m);
  TensorSet<double> set;
  set.reals.add("x", 1, {N, d});
  if (m > 0) set.reals.add("omega", 1, {m, d});
  set.reals.add("y", 1, {N, p});
  set.allocate();
  upload(Device::cpu, set.real("x"), 0, x);
  if (m > 0) upload(Device::cpu, set.real("omega"), 0, omega);
  run(Exec{}, FeatureMapForward<double>{map, number, set.real("x"),
                                        m > 0 ? set.real("omega") : Tensor<double>{}, set.real("y")});
  return download(Device::cpu, set.real("y"), 0);
}

/// Normal numbers, for laws.
inline Numbers normal_numbers(std::size_t n, std::uint32_t stream, double scale = 1) {
  RandomStream random(31, RandomDomain::initialisation, stream);
  Numbers x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(scale * normal_from_uniform(random.uniform()));
  return x;
}

inline double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Rows of `matrix` times x.
inline Numbers times_rows(const Numbers& matrix, const Numbers& x) {
  Numbers y;
  for (std::size_t row = 0; row < matrix.size() / x.size(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += matrix[row * x.size() + i] * x[i];
    y.push_back(sum);
  }
  return y;
}

/// Mean of `draws` numbers and the standard error of it.
struct Mean {
  double mean = 0, error = 0;
};
inline Mean mean_of(int draws, const std::function<double(int draw)>& f) {
  double sum = 0, squares = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = f(i);
    sum += x, squares += x * x;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt((squares / draws - mean * mean) / (draws - 1))};
}

}  // namespace crosstalk::checks
