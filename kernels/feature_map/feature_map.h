// Feature maps phi: R^d -> R^p of keys and queries, row by row: one struct each in kernels/feature_map/maps/. FAVOR+ alone sees a second
// matrix here, omega (ops/favor_features.h); other maps of projected rows are given them projected.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <crosstalk_maps.h>  // made by the build from kernels/feature_map/maps/

#include "kernels/base/exec.h"

namespace crosstalk {

#define CROSSTALK_NAME_MAP(name) name,
enum class FeatureMap : int { CROSSTALK_FEATURE_MAPS(CROSSTALK_NAME_MAP) };
#undef CROSSTALK_NAME_MAP

/// Returns f.template operator()<maps::NAME>() of the map. Host.
template <class F>
decltype(auto) visit_map(FeatureMap map, F&& f) {
#define CROSSTALK_VISIT_MAP(name) \
  case FeatureMap::name:          \
    return f.template operator()<maps::name>();
  switch (map) { CROSSTALK_FEATURE_MAPS(CROSSTALK_VISIT_MAP) }
#undef CROSSTALK_VISIT_MAP
  __builtin_unreachable();
}

/// Whether phi is calculated entry by entry: such maps are fused into more ops.
constexpr bool is_entry_map(FeatureMap map) {
#define CROSSTALK_ASK_MAP(name) \
  case FeatureMap::name:        \
    return maps::name::kFamily == maps::Family::entry;
  switch (map) { CROSSTALK_FEATURE_MAPS(CROSSTALK_ASK_MAP) }
#undef CROSSTALK_ASK_MAP
  return false;
}

/// p for rows of width d. number: what the map counts (nu of DPFP, features a row of omega for FAVOR+, a degree); m: rows of
/// omega, for FAVOR+.
inline int map_width(FeatureMap map, int d, int number, int m) {
  return static_cast<int>(visit_map(map, [&]<class Map>() { return Map::width(d, number, m); }));
}

/// x [R,N,d] -> y [R,N,p]; omega [R,m,d] for FAVOR+ only.
template <class Real>
struct FeatureMapForward {
  FeatureMap map = FeatureMap::identity;
  int number = 1;
  Tensor<Real> x, omega, y;
};

/// d_y [R,N,p] -> d_x [R,N,d]. Needs x and y. omega gets no gradient.
template <class Real>
struct FeatureMapBackward {
  FeatureMap map = FeatureMap::identity;
  int number = 1;
  Tensor<Real> x, omega, y, d_y, d_x;
  Write write_x = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const FeatureMapForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const FeatureMapBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const FeatureMapForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const FeatureMapBackward<Real>& args);

}  // namespace crosstalk
