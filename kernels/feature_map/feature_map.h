// Feature maps phi: R^d -> R^p of keys and queries, row by row: one struct each in kernels/feature_map/maps/.
// FAVOR+ alone sees a second matrix here, omega (feature_map/favor_features.h); other maps of projected rows
// are given them projected.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <crosstalk_maps.h>  // made by the build from kernels/feature_map/maps/

#include <stdexcept>

#include "kernels/base/op.h"

namespace crosstalk {

#define CROSSTALK_NAME_MAP(name) name,
enum class FeatureMap : int { CROSSTALK_FEATURE_MAPS(CROSSTALK_NAME_MAP) };
#undef CROSSTALK_NAME_MAP

/// Returns f.template operator()<maps::NAME>() of the map.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable  // f may be the host's
#endif
template <class F>
CT_HD constexpr decltype(auto) visit_map(FeatureMap map, F&& f) {
#define CROSSTALK_VISIT_MAP(name) \
  case FeatureMap::name:          \
    return f.template operator()<maps::name>();
  switch (map) { CROSSTALK_FEATURE_MAPS(CROSSTALK_VISIT_MAP) }
#undef CROSSTALK_VISIT_MAP
  __builtin_unreachable();
}

/// Tells whether phi is calculated entry by entry: such maps are fused into more ops.
constexpr bool is_entry_map(FeatureMap map) {
  return visit_map(map, [&]<class Map>() { return Map::kFamily == maps::Family::entry; });
}

/// p for rows of width d. number: what the map counts (nu of DPFP, features a row of omega for FAVOR+, a
/// degree); m: rows of omega, for FAVOR+.
inline int map_width(FeatureMap map, int d, int number, int m) {
  return static_cast<int>(visit_map(map, [&]<class Map>() { return Map::width(d, number, m); }));
}

/// Features of rows.
template <class Real>
struct MapFeatures {
  FeatureMap map = FeatureMap::identity;
  int number = 1;
  In<Real> x;      ///< [R,N,d]
  In<Real> omega;  ///< [R,m,d] for FAVOR+ only; gets no gradient
  Out<Real> y;     ///< [R,N,p]

  static constexpr const char* kName = "feature_map";
  CROSSTALK_FIELDS(x, omega, y)
  void plan() {
    const int d = x.value.columns();
    if (omega && omega.value.columns() != d) throw std::logic_error("[feature_map] omega does not fit");
    y.value = without_memory(x.value);
    y.value.dims[y.value.rank - 1] = map_width(map, d, number, omega ? omega.value.dim(0) : 0);
  }
};
CROSSTALK_OP(MapFeatures)

}  // namespace crosstalk
