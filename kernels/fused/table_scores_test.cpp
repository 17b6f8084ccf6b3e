// Scores from table rows on the GPU against their chain on the CPU: lookup, feature maps, scores. Shapes cut
// teams, warps and slices, or are those of studies.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/table_scores.h"

#include "kernels/attention/attend.h"
#include "kernels/linear/linear.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks::table_scores_test {
namespace {

struct Shape {
  FeatureMap map;
  int B, T, Q, d;
  std::vector<int> rows;  ///< of each table; table i is read with channel i
  int nu = 1, m = 0;
  bool permuted = false;  ///< each row once a sequence (recall)
};

constexpr double kScale = 0.7;

std::string indexed(const char* name, int i) { return fmt::format("{}{}", name, i); }

template <class Real>
Lookup<Real> lookup_of(const TensorSet<Real>& s, const Shape& shape) {
  Lookup<Real> op;
  op.tables = static_cast<int>(shape.rows.size());
  op.ids.value = s.integer("ids");
  for (int i = 0; i < op.tables; ++i) {
    op.channel[i] = i;
    op.table[i].value = s.real(indexed("table", i)), op.table[i].gradient = s.real(indexed("d_table", i));
    op.table[i].write = s.write(indexed("table", i));
  }
  op.y.value = s.real("k"), op.y.gradient = s.real("d_k");
  return op;
}

/// [R,B,N,P] as [R,B,N,1,P], and [R,B,Q,T] as [R,B,1,Q,T]: one head.
template <class Real>
Tensor<Real> one_head(Tensor<Real> t, int at) {
  for (int i = t.rank++; i > at; --i) t.dims[i] = t.dims[i - 1];
  t.dims[at] = 1;
  return t;
}

template <class Real>
Attend<Real> scores_of(const TensorSet<Real>& s) {
  Attend<Real> op;
  op.kernel = Kernel::identity, op.normalised = false, op.scale = kScale;
  op.k.value = one_head(s.real("phi"), 2), op.k.gradient = one_head(s.real("d_phi"), 2);
  op.x.value = one_head(s.real("q"), 2), op.x.gradient = one_head(s.real("d_q"), 2);
  op.k.write = op.x.write = Write::overwrite;
  op.position.value = s.integer("position");
  op.a.value = one_head(s.real("a"), 1), op.a.gradient = one_head(s.real("d_a"), 1);
  return op;
}

template <class Real>
void chain_forward(const Exec& exec, const TensorSet<Real>& s, const Shape& shape) {
  forward(exec, lookup_of(s, shape));
  for (const auto& [x, y] : {std::pair{"k", "phi"}, {"query", "q"}})
    forward(exec, MapFeatures<Real>{shape.map, shape.nu, {s.real(x)}, {s.real("omega")}, {s.real(y)}});
  forward(exec, scores_of(s));
}

template <class Real>
void chain_backward(const Exec& exec, const TensorSet<Real>& s, const Shape& shape) {
  backward(exec, scores_of(s));
  const auto map_back = [&](const char* x, const char* d_x, const char* y, const char* d_y, Write write) {
    backward(exec, MapFeatures<Real>{shape.map,
                                     shape.nu,
                                     {s.real(x), s.real(d_x), write},
                                     {s.real("omega")},
                                     {s.real(y), s.real(d_y)}});
  };
  map_back("k", "d_k", "phi", "d_phi", Write::overwrite);
  map_back("query", "d_query", "q", "d_q", s.write("query"));
  backward(exec, lookup_of(s, shape));
}

template <class Real>
TableKeys<Real> keys_of(const TensorSet<Real>& s, const Shape& shape) {
  TableKeys<Real> keys;
  keys.map = shape.map, keys.nu = shape.nu;
  keys.ids = s.integer("ids");
  keys.tables = static_cast<int>(shape.rows.size());
  for (int i = 0; i < keys.tables; ++i) {
    keys.table[i] = s.real(indexed("table", i));
    keys.projected[i] = s.real(indexed("projected", i));
    keys.channel[i] = i;
  }
  return keys;
}

/// Rows of table i times omega, which FAVOR+ wants; backward adds to the gradient of the table.
template <class Real>
Linear<Real> projection_of(const TensorSet<Real>& s, int i) {
  Linear<Real> op;
  op.x.value = s.real(indexed("table", i)), op.x.gradient = s.real(indexed("d_table", i));
  op.x.write = Write::add;
  op.w.value = s.real("omega");
  op.y.value = s.real(indexed("projected", i)), op.y.gradient = s.real(indexed("d_projected", i));
  return op;
}

template <class Real>
void fused_forward(const Exec& exec, const TensorSet<Real>& s, const Shape& shape) {
  for (int i = 0; i < static_cast<int>(shape.rows.size()); ++i) {
    run(exec, BucketIds<Real>{s.integer("ids"), i, 1, s.integer(indexed("order", i)),
                              s.integer(indexed("start", i))});
    if (shape.m) forward(exec, projection_of(s, i));
  }
  run_cuda(exec, TableScoresForward<Real>{keys_of(s, shape), kScale, s.real("query"), s.real("omega"),
                                          s.real("q"), s.real("a"), s.real("shift"), s.integer("position")});
}

template <class Real>
void fused_backward(const Exec& exec, const TensorSet<Real>& s, const Shape& shape) {
  TableScoresBackward<Real> op;
  op.keys = keys_of(s, shape);
  op.scale = kScale;
  op.query = s.real("query"), op.omega = s.real("omega");
  op.q = s.real("q"), op.a = s.real("a"), op.shift = s.real("shift");
  op.d_a = s.real("d_a"), op.position = s.integer("position");
  op.d_q = s.real("d_q");
  op.d_query = s.real("d_query"), op.write_query = s.write("query");
  for (int i = 0; i < op.keys.tables; ++i) {
    op.order[i] = s.integer(indexed("order", i)), op.start[i] = s.integer(indexed("start", i));
    op.d_table[i] = s.real(indexed("d_table", i)), op.write_table[i] = s.write(indexed("table", i));
    op.d_projected[i] = s.real(indexed("d_projected", i)), op.write_projected[i] = Write::overwrite;
  }
  run_cuda(exec, op);
  for (int i = 0; i < op.keys.tables && shape.m; ++i) backward(exec, projection_of(s, i));
}

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  const int tables = static_cast<int>(s.rows.size()), p = map_width(s.map, s.d, s.nu, s.m);
  op.integers("ids", {s.B, s.T, tables}, [s, tables](RandomStream& random, int r, std::int64_t i) -> double {
    const int c = static_cast<int>(i % tables), t = static_cast<int>(i / tables) % s.T, rows = s.rows[c];
    if (s.permuted) return static_cast<double>(((7 + 4 * c) * t + 13 * (i / tables / s.T) + 5 * r) % rows);
    return random.below(static_cast<std::uint32_t>(rows + 1)) - 1.0;
  });
  op.integers("position", {s.B, s.Q}, positions(s.T));
  const double size = s.m ? 0.25 : 1;  // a long key of FAVOR+ has no features to speak of
  op.input("query", {s.B, s.Q, s.d}, uniform(-size, size)).output("a", {s.B, s.Q, s.T});
  op.output_without_gradient("q", {s.B, s.Q, p}).workspace("d_q", {s.B, s.Q, p});
  for (const char* grown : {"", "d_"})
    op.workspace(std::string(grown) + "k", {s.B, s.T, s.d})
        .workspace(std::string(grown) + "phi", {s.B, s.T, p});
  if (s.m)
    op.parameter("omega", {s.m, s.d}, uniform(-1, 1)).workspace("shift", {s.B, s.T});
  else
    op.absent("omega").absent("shift");
  for (int i = 0; i < tables; ++i) {
    const int rows = s.rows[i];
    op.input(indexed("table", i), {rows, s.d}, uniform(-size, size));
    if (s.m)
      op.workspace(indexed("projected", i), {rows, s.m}).workspace(indexed("d_projected", i), {rows, s.m});
    else
      op.absent(indexed("projected", i));
    op.workspace_of_integers(indexed("order", i), {s.B * s.T})
        .workspace_of_integers(indexed("start", i), {rows + 1});
  }
  op.forward([s](const Exec& exec, auto& set) {
    exec.device == Device::cuda ? fused_forward(exec, set, s) : chain_forward(exec, set, s);
  });
  op.backward([s](const Exec& exec, auto& set) {
    exec.device == Device::cuda ? fused_backward(exec, set, s) : chain_backward(exec, set, s);
  });
  // Exponents of FAVOR+ are rounded before they are exponentiated.
  const OpCase::CudaLimit limit{1.0 * p + s.T + s.B, s.m ? 4.0 : 2.0};
  return op.on_cuda(limit, limit);
}

std::vector<OpCase> cases() {
  using M = FeatureMap;
  const Shape shapes[] = {{M::identity, 3, 5, 1, 7, {4, 3}},
                          {M::elu1, 3, 5, 1, 8, {4, 3}},
                          {M::relu, 2, 6, 3, 5, {4, 6}},
                          {M::tanh, 2, 6, 1, 33, {4, 3, 4}},
                          {M::dpfp, 3, 7, 1, 8, {4, 3}},
                          {M::dpfp, 2, 5, 3, 7, {4, 5, 4}, 2},
                          {M::dpfp, 2, 6, 1, 32, {4, 3}, 3},
                          {M::dpfp, 2, 9, 1, 64, {4, 3}, 3},
                          {M::dpfp, 2, 6, 1, 2, {4, 3}, 3},
                          {M::dpfp, 2, 4, 2, 1, {4, 3}, 1},
                          {M::silu, 2, 6, 2, 33, {4, 3, 4}},
                          {M::exp, 3, 5, 1, 8, {4, 3}},
                          {M::elu1, 2, 6, 1, 5, {4}},
                          {M::elu1, 1, 1, 1, 3, {2, 2}},
                          {M::elu1, 3, 90, 1, 6, {2, 5}},
                          {M::dpfp, 3, 60, 1, 10, {2, 5}, 2},
                          {M::tanh, 2, 7, 2, 100, {4, 3}},
                          {M::favor, 3, 6, 1, 5, {4, 3}, 2, 4},
                          {M::favor, 2, 6, 3, 4, {4, 5, 4}, 1, 7},
                          {M::favor, 2, 5, 1, 33, {4, 3}, 2, 70},
                          {M::identity, 1, 1, 1, 1, {1, 1}},
                          {M::elu1, 2, 33, 1, 64, {9, 7}},
                          {M::elu1, 3, 40, 3, 31, {9, 7, 9}},
                          {M::elu1, 3, 40, 3, 64, {9, 7, 9}},
                          {M::identity, 3, 101, 2, 64, {9, 11}},
                          {M::relu, 2, 64, 1, 64, {9, 1}},
                          {M::tanh, 2, 37, 2, 64, {9, 7}},
                          {M::elu1, 2, 70, 1, 64, {501, 30}},
                          {M::elu1, 2, 70, 1, 64, {901, 900}},
                          {M::relu, 2, 70, 1, 100, {3, 50}},
                          {M::tanh, 2, 17, 4, 128, {6, 5}},
                          {M::silu, 2, 33, 2, 64, {9, 7}},
                          {M::exp, 2, 37, 1, 100, {9, 7}},
                          {M::dpfp, 2, 35, 1, 64, {9, 7}, 1},
                          {M::dpfp, 2, 35, 2, 64, {9, 7, 9}, 2},
                          {M::dpfp, 2, 35, 1, 32, {9, 7}, 3},
                          {M::dpfp, 2, 35, 1, 128, {9, 7}, 3},
                          {M::dpfp, 2, 21, 1, 60, {9, 7}, 3},
                          {M::dpfp, 3, 21, 2, 37, {9, 7}, 2},
                          {M::dpfp, 3, 300, 1, 3, {2, 700}, 3},
                          {M::favor, 2, 35, 1, 64, {9, 7}, 2, 64},
                          {M::favor, 2, 19, 2, 37, {9, 7, 9}, 2, 131},
                          {M::favor, 3, 200, 1, 8, {2, 300}, 1, 70}};
  std::vector<OpCase> all;
  for (const Shape& s : shapes)
    all.push_back(make(fmt::format("{}_{}x{}x{}x{}_nu{}_m{}_{}", static_cast<int>(s.map), s.B, s.T, s.Q, s.d,
                                   s.nu, s.m, fmt::join(s.rows, "_")),
                       s));
  return all;
}

std::vector<OpCase> studies() {
  using M = FeatureMap;
  return {make("Dpfp3S600", {M::dpfp, 32, 600, 1, 64, {600, 600}, 3, 0, true}).heavy(),
          make("Elu1S100", {M::elu1, 32, 100, 1, 64, {100, 100}, 1, 0, true}).heavy(),
          make("Elu1S600", {M::elu1, 32, 600, 1, 64, {600, 600}, 1, 0, true}).heavy(),
          make("IdentityS600", {M::identity, 32, 600, 1, 64, {600, 600}, 1, 0, true}).heavy(),
          make("Dpfp1Reassign", {M::dpfp, 32, 40, 1, 64, {20, 20}}).heavy(),
          make("Favor512S240", {M::favor, 32, 240, 1, 64, {240, 240}, 2, 512, true}).heavy()};
}

INSTANTIATE_TEST_SUITE_P(TableScores, CudaOpCheck, ::testing::ValuesIn(cases()), case_name);
INSTANTIATE_TEST_SUITE_P(TableScoresOfStudies, CudaOpCheck, ::testing::ValuesIn(studies()), case_name);

}  // namespace
}  // namespace crosstalk::checks::table_scores_test
