// Checks that every feature map passes, with the oracle of its test (feature_map/maps/NAME_test.cpp).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/feature_map/feature_map.h"

#include <fmt/format.h>

#include "kernels/testing/map_oracle.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::feature_map_test {
namespace {

OpCase make(const std::string& name, FeatureMap map, int N, MapShape s, const Fill& x, const Fill& omega) {
  OpCase op(name);
  const int p = map_width(map, s.d, s.number, s.m);
  op.input("x", {N, s.d}, x);
  if (s.m)
    op.parameter("omega", {s.m, s.d}, omega);
  else
    op.absent("omega");
  op.output("y", {N, p});
  call<MapFeatures>(op, [=](auto& o) { o.map = map, o.number = s.number; });
  op.oracle([=](const Values& in, Values& out) {
    const Numbers rows_of_omega = s.m > 0 ? in["omega"] : Numbers{};
    for (int n = 0; n < N; ++n) {
      const Numbers row(in["x"].begin() + n * s.d, in["x"].begin() + (n + 1) * s.d);
      const Numbers y = map_oracles().at(name_of(map)).row(row, s.number, rows_of_omega);
      auto& all = out.real["y"];
      all.insert(all.end(), y.begin(), y.end());
    }
  });
  return op.roundings(s.d + (is_entry_map(map) ? s.d : std::min(p, 100)) + 8)
      .condition(s.m ? 4 : 1)
      .gradient_elements(200);
}

OpCase make(const std::string& name, FeatureMap map, int N, MapShape s) {
  return make(name, map, N, s, off_zero(s.m ? 0.4 : 1), normal());
}

std::string shape_name(FeatureMap map, const MapShape& s) {
  return fmt::format("{}_{}_{}_{}", name_of(map), s.d, s.number, s.m);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const FeatureMap map : every_map()) {
    if (map_oracles().count(name_of(map)) == 0) continue;  // EveryMapHasAnOracle fails
    const auto& shapes = map_oracles().at(name_of(map)).shapes;
    for (const MapShape& s : shapes) all.push_back(make(shape_name(map, s), map, 6, s));
    all.push_back(make(fmt::format("{}_many_rows", name_of(map)), map, 150, shapes.front()));
    if (!is_entry_map(map)) continue;
    const double far = map == FeatureMap::exp ? 20 : 150;
    all.push_back(make(fmt::format("{}_far_out", name_of(map)), map, 4, {6}).edit("x", [=](int, Numbers& x) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += i % 3 == 0 ? -far : i % 3 == 1 ? far : 0;
    }));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(FeatureMaps, OpCheck, ::testing::ValuesIn(cases()), case_name);

std::vector<OpCase> tiles() {
  using M = FeatureMap;
  const std::vector<std::pair<M, MapShape>> shapes = {
      {M::identity, {5}},       {M::elu1, {64}},         {M::relu, {33}},         {M::tanh, {40}},
      {M::silu, {33}},          {M::exp, {64}},          {M::dpfp, {1, 1}},       {M::dpfp, {3, 7}},
      {M::dpfp, {64, 3}},       {M::favor, {5, 2, 3}},   {M::favor, {17, 1, 9}},  {M::favor, {64, 2, 128}},
      {M::favor, {64, 2, 512}}, {M::favor, {64, 1, 70}}, {M::favor_relu, {7, 4}}, {M::favor_relu, {130, 64}},
      {M::rfa, {1, 1}},         {M::rfa, {128, 1}},      {M::hedgehog, {5, 1}},   {M::hedgehog, {64, 1}},
      {M::hedgehog, {33, 0}},   {M::taylor, {1, 1}},     {M::taylor, {64, 1}},    {M::taylor, {33, 2}},
      {M::taylor, {8, 4}},      {M::taylor, {2, 8}},     {M::power, {64, 2}},     {M::power, {7, 3}},
      {M::square, {33}},        {M::all_poly, {64}},     {M::cosformer, {1, 1}},  {M::cosformer, {33, 1}}};
  std::vector<OpCase> all;
  for (const auto& [map, s] : shapes) {
    for (const int N : {1, 32, 77, 200}) {
      OpCase op =
          make(fmt::format("{}_{}", shape_name(map, s), N), map, N, s, uniform(-1, 1), uniform(-1, 1));
      const double backward = 2 * s.number + 2 * s.m + (is_entry_map(map) ? 0 : s.d);
      all.push_back(op.on_cuda({1.0 * s.d, 2}, {backward, 2}).heavy(N > 77));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(FeatureMaps, CudaOpCheck, ::testing::ValuesIn(tiles()), case_name);

TEST(FeatureMaps, EveryMapHasAnOracle) {
  for (const FeatureMap map : every_map()) {
    const auto found = map_oracles().find(name_of(map));
    ASSERT_NE(found, map_oracles().end())
        << "kernels/feature_map/maps/" << name_of(map) << "_test.cpp says no CROSSTALK_MAP_ORACLE";
    EXPECT_FALSE(found->second.shapes.empty()) << name_of(map);
  }
}

// Everything is finite at 0, with its gradient; at a kink the derivative is 0, as in PyTorch.
TEST(FeatureMaps, ZeroRow) {
  for (const FeatureMap map : every_map()) {
    SCOPED_TRACE(name_of(map));
    for (const MapShape& s : map_oracles().at(name_of(map)).shapes) {
      OpCase op = make("Zero", map, 2, s);
      op.edit("x", [](int, Numbers& x) { std::fill(x.begin(), x.end(), 0); });
      TensorSet<double> set;
      op.fill(set, {0});
      op.run_forward(Exec{}, set);
      op.run_backward(Exec{}, set);
      for (std::int64_t i = 0; i < set.real("y").size(); ++i)
        ASSERT_TRUE(std::isfinite(set.real("y").data[i]));
      for (std::int64_t i = 0; i < set.real("d_x").size(); ++i) {
        const double d_x = set.real("d_x").data[i];
        ASSERT_TRUE(std::isfinite(d_x));
        if (map == FeatureMap::relu || map == FeatureMap::dpfp || map == FeatureMap::favor_relu) {
          ASSERT_EQ(d_x, 0);
        }
        if (map == FeatureMap::elu1 || map == FeatureMap::tanh) {
          ASSERT_EQ(d_x, set.real("d_y").data[i]);
        }
      }
    }
  }
}

// A diverged model must look diverged: no map turns a row of NaN into numbers. (Constant features stay.)
TEST(FeatureMaps, NanIsNotHidden) {
  for (const FeatureMap map : every_map()) {
    SCOPED_TRACE(name_of(map));
    for (const MapShape& s : map_oracles().at(name_of(map)).shapes) {
      OpCase op = make("Nan", map, 7, s);
      op.edit("x", [](int, Numbers& x) { std::fill(x.begin(), x.end(), std::nan("")); });
      TensorSet<double> set;
      op.fill(set, {0});
      op.run_forward(Exec{}, set);
      const bool constant = map == FeatureMap::taylor || map == FeatureMap::power;
      const int p = set.real("y").columns();
      for (std::int64_t i = 0; i < set.real("y").size(); ++i) {
        if (constant && i % p == 0) continue;
        ASSERT_TRUE(std::isnan(set.real("y").data[i])) << "element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::feature_map_test
