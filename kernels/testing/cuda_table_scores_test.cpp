// Scores from table rows on the GPU against the CPU, at the sizes of studies and at sizes that cut teams,
// warps and slices; and a replica's bits in company of 1, 7 and 64.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "kernels/base/random.h"
#include "kernels/fused/table_scores.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/tensors.h"

namespace crosstalk {
namespace {

using namespace checks;

struct Shape {
  FeatureMap map;
  int B, T, Q, d;
  std::vector<int> rows;
  int nu = 1, m = 0;
  bool permuted = false;  ///< each row once a sequence (recall)
};

int dimension(const Shape& s) { return map_width(s.map, s.d, s.nu, s.m); }

std::string indexed(const char* name, int i) { return name + std::to_string(i); }

/// CROSSTALK_FEW_REPLICAS=1: two at most, for tools that make the GPU slow.
bool few_replicas() { return std::getenv("CROSSTALK_FEW_REPLICAS") != nullptr; }

/// One call of forward and backward. Data is a function of (tensor, replica) alone; results hold numbers
/// before the call, so that Write::add shows.
template <class Real>
struct Call {
  Call(Device device, int R, const Shape& s, Write write) : set(device) {
    const int tables = static_cast<int>(s.rows.size()), p = dimension(s);
    std::vector<std::string> reals;
    const auto real = [&](const std::string& name, const std::vector<int>& dims) {
      set.reals.add(name, R, dims);
      reals.push_back(name);
    };
    real("query", {s.B, s.Q, s.d});
    real("d_query", {s.B, s.Q, s.d});
    real("q", {s.B, s.Q, p});
    real("d_a", {s.B, s.Q, s.T});
    real("d_q", {s.B, s.Q, p});
    real("a", {s.B, s.Q, s.T});
    results = {"q", "a", "d_query"};
    for (int i = 0; i < tables; ++i) {
      real(indexed("table", i), {s.rows[static_cast<std::size_t>(i)], s.d});
      real(indexed("d_table", i), {s.rows[static_cast<std::size_t>(i)], s.d});
      results.push_back(indexed("d_table", i));
      set.integers.add(indexed("order", i), R, {s.B * s.T});
      set.integers.add(indexed("start", i), R, {s.rows[static_cast<std::size_t>(i)] + 1});
      if (!s.m) continue;
      real(indexed("projected", i), {s.rows[static_cast<std::size_t>(i)], s.m});
      real(indexed("d_projected", i), {s.rows[static_cast<std::size_t>(i)], s.m});
      results.push_back(indexed("d_projected", i));
    }
    if (s.m) {
      real("omega", {s.m, s.d});
      set.reals.add("shift", R, {s.B, s.T});
    }
    set.integers.add("ids", R, {s.B, s.T, tables});
    set.integers.add("position", R, {s.B, s.Q});
    set.allocate();
    for (int r = 0; r < R; ++r) {
      for (std::size_t i = 0; i < reals.size(); ++i) {
        RandomStream random(17, RandomDomain::initialisation, static_cast<std::uint32_t>(i),
                            static_cast<std::uint32_t>(r));
        std::vector<double> values(static_cast<std::size_t>(set.real(reals[i]).size()));
        // Queries of FAVOR+ are short: a long one has no features to speak of.
        const double most = s.m && reals[i] == "query" ? 0.25 : 1;
        for (double& x : values) x = most * (2 * random.uniform() - 1);
        upload(device, set.real(reals[i]), r, values);
      }
      RandomStream random(18, RandomDomain::initialisation, static_cast<std::uint32_t>(r));
      const auto below = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint32_t>(n))); };
      std::vector<int> ids(static_cast<std::size_t>(s.B * s.T * tables)), position;
      for (int b = 0; b < s.B; ++b) {
        for (int i = 0; i < tables; ++i) {
          const int n = s.rows[static_cast<std::size_t>(i)];
          std::vector<int> order;
          for (int t = 0; t < s.T; ++t) order.push_back(s.permuted ? t % n : below(n + 1) - 1);
          for (int t = s.T - 1; s.permuted && t > 0; --t)
            std::swap(order[static_cast<std::size_t>(t)], order[static_cast<std::size_t>(below(t + 1))]);
          for (int t = 0; t < s.T; ++t)
            ids[static_cast<std::size_t>((b * s.T + t) * tables + i)] = order[static_cast<std::size_t>(t)];
        }
      }
      for (int i = 0; i < s.B * s.Q; ++i) position.push_back(i % 3 == 0 ? s.T : below(s.T + 1));
      upload(device, set.integer("ids"), r, ids);
      upload(device, set.integer("position"), r, position);
    }
    TableScoresForward<Real> forward;
    TableScoresBackward<Real> backward;
    TableKeys<Real>& keys = forward.keys;
    keys.map = s.map, keys.nu = s.nu, keys.tables = tables, keys.ids = set.integer("ids");
    for (int i = 0; i < tables; ++i) {
      keys.channel[i] = i;
      keys.table[i] = set.real(indexed("table", i));
      backward.order[i] = set.integer(indexed("order", i)),
      backward.start[i] = set.integer(indexed("start", i));
      backward.d_table[i] = set.real(indexed("d_table", i)), backward.write_table[i] = write;
      if (!s.m) continue;
      keys.projected[i] = set.real(indexed("projected", i));
      backward.d_projected[i] = set.real(indexed("d_projected", i)), backward.write_projected[i] = write;
    }
    forward.scale = backward.scale = 0.7;
    forward.query = backward.query = set.real("query"), backward.d_query = set.real("d_query");
    if (s.m) forward.omega = backward.omega = set.real("omega");
    forward.q = backward.q = set.real("q"), forward.a = backward.a = set.real("a");
    if (s.m) forward.shift = backward.shift = set.real("shift");
    forward.position = backward.position = set.integer("position");
    backward.keys = keys;
    backward.d_a = set.real("d_a"), backward.d_q = set.real("d_q"), backward.write_query = write;
    Exec exec;
    exec.device = device;
    for (int i = 0; i < tables; ++i)
      run(exec, BucketIds<Real>{keys.ids, i, 1, backward.order[i], backward.start[i]});
    run(exec, forward);
    run(exec, backward);
  }
  std::vector<Real> result(const std::string& name, int r) const {
    return download(set.device(), set.real(name), r);
  }
  TensorSet<Real> set;
  std::vector<std::string> results;
};

using CudaTableScores = checks::CudaTest;

/// `length`: terms of the longest sum. `scale`: how much larger than results the numbers on the way are.
template <class Real>
void compare(const Shape& s, Write write, int most, bool bits) {
  const Call<Real> cpu(Device::cpu, most, s, write), gpu(Device::cuda, most, s, write);
  const double eps = std::is_same_v<Real, double> ? 1e-12 / 64 : 1.2e-7;
  const double length = std::sqrt(static_cast<double>(dimension(s)) + s.T + s.B);
  const double scale = s.m ? 4 : 2;  // exponents of FAVOR+ are rounded before they are exponentiated
  for (const std::string& name : cpu.results) {
    for (int r = 0; r < most; ++r) {
      const auto want = cpu.result(name, r), got = gpu.result(name, r);
      const auto n = static_cast<std::int64_t>(want.size());
      EXPECT_TRUE(close(name + ", replica " + std::to_string(r), got.data(), want.data(), n,
                        4 * eps * (4 + length) * scale * std::max(1.0, magnitude(want.data(), n))));
    }
  }
  if (!bits) return;
  for (int R : {1, 64}) {
    if (R > 1 && few_replicas()) break;
    const Call<Real> other(Device::cuda, R, s, write);
    for (const std::string& name : gpu.results) {
      for (int r = 0; r < std::min(R, most); ++r) {
        const auto want = gpu.result(name, r), got = other.result(name, r);
        EXPECT_TRUE(
            identical(name + " of replica " + std::to_string(r) + ", alone or with " + std::to_string(R - 1),
                      got.data(), want.data(), static_cast<std::int64_t>(want.size())));
      }
    }
  }
}

void check(const Shape& s, int most, bool bits) {
  for (Write write : {Write::overwrite, Write::add}) {
    SCOPED_TRACE(testing::Message() << "map " << static_cast<int>(s.map) << " B " << s.B << " T " << s.T
                                    << " Q " << s.Q << " d " << s.d << " nu " << s.nu << " m " << s.m
                                    << (write == Write::add ? " add" : " overwrite"));
    compare<double>(s, write, most, bits);
    compare<float>(s, write, most, bits);
  }
}

TEST_F(CudaTableScores, CutTeamsAndWarps) {
  using M = FeatureMap;
  const Shape shapes[] = {
      {M::identity, 1, 1, 1, 1, {1, 1}},        {M::elu1, 2, 33, 1, 64, {9, 7}},
      {M::elu1, 3, 40, 3, 31, {9, 7, 9}},       {M::elu1, 3, 40, 3, 64, {9, 7, 9}},
      {M::identity, 3, 101, 2, 64, {9, 11}},    {M::relu, 2, 64, 1, 64, {9, 1}},
      {M::tanh, 2, 37, 2, 64, {9, 7}},          {M::elu1, 2, 70, 1, 64, {501, 30}},
      {M::elu1, 2, 70, 1, 64, {901, 900}},      {M::relu, 2, 70, 1, 100, {3, 50}},
      {M::tanh, 2, 17, 4, 128, {6, 5}},         {M::silu, 2, 33, 2, 64, {9, 7}},
      {M::exp, 2, 37, 1, 100, {9, 7}},          {M::dpfp, 2, 35, 1, 64, {9, 7}, 1},
      {M::dpfp, 2, 35, 2, 64, {9, 7, 9}, 2},    {M::dpfp, 2, 35, 1, 32, {9, 7}, 3},
      {M::dpfp, 2, 35, 1, 128, {9, 7}, 3},      {M::dpfp, 2, 21, 1, 60, {9, 7}, 3},
      {M::dpfp, 3, 21, 2, 37, {9, 7}, 2},       {M::dpfp, 3, 300, 1, 3, {2, 700}, 3},
      {M::favor, 2, 35, 1, 64, {9, 7}, 2, 64},  {M::favor, 2, 19, 2, 37, {9, 7, 9}, 2, 131},
      {M::favor, 3, 200, 1, 8, {2, 300}, 1, 70}};
  const int most = few_replicas() ? 2 : 7;
  for (const Shape& s : shapes) check(s, most, true);
}

TEST_F(CudaTableScores, AtTheSizesOfStudies) {
  if (few_replicas()) GTEST_SKIP() << "too slow";
  using M = FeatureMap;
  const Shape shapes[] = {{M::dpfp, 32, 600, 1, 64, {600, 600}, 3, 0, true},
                          {M::elu1, 32, 100, 1, 64, {100, 100}, 1, 0, true},
                          {M::elu1, 32, 600, 1, 64, {600, 600}, 1, 0, true},
                          {M::identity, 32, 600, 1, 64, {600, 600}, 1, 0, true},
                          {M::dpfp, 32, 40, 1, 64, {20, 20}, 1, 0, false},
                          {M::favor, 32, 240, 1, 64, {240, 240}, 2, 512, true}};
  for (const Shape& s : shapes) check(s, 1, false);
}

}  // namespace
}  // namespace crosstalk
