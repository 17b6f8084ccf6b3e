// Checks of steps (base/exec.h), which no OpCase describes: replicas know neither each other nor threads, and a GPU gives what
// the CPU gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks {

/// Numbers that a step leaves, by name and replica.
using Left = std::map<std::string, std::vector<Numbers>>;
/// Runs a step for replicas that have the data of `ids`, each 0 .. 4.
using RunStep = std::function<Left(const std::vector<int>& ids, const Exec&)>;

/// Adds tensor `name` of all replicas.
template <class T>
void keep(Left& left, const std::string& name, Device device, const Tensor<T>& tensor) {
  for (int r = 0; r < tensor.R; ++r) {
    const std::vector<T> x = download(device, tensor, r);
    left[name].emplace_back(x.begin(), x.end());
  }
}

inline void expect_same(const Left& got, int r, const Left& want, int id) {
  for (const auto& [name, all] : want) {
    const Numbers &g = got.at(name).at(static_cast<std::size_t>(r)),
                  &w = all.at(static_cast<std::size_t>(id));
    ASSERT_EQ(g.size(), w.size()) << name;
    EXPECT_TRUE(identical(name, g.data(), w.data(), static_cast<std::int64_t>(w.size()))) << "replica " << id;
  }
}

/// Replicas alone, with other threads, and where others stand still.
inline void check_replicas(const RunStep& run) {
  const std::vector<int> all = {0, 1, 2, 3, 4}, active = {4, 1};
  const Left together = run(all, {});
  for (const int id : all) expect_same(run({id}, {}), 0, together, id);
  for (const int threads : {2, 3}) {
    const Left again = run(all, {.threads = threads});
    for (const int id : all) expect_same(again, id, together, id);
  }
  const Left some = run(all, {.replicas = active.data(), .replica_count = 2}),
             none = run(all, {.replicas = active.data(), .replica_count = 0});
  for (const int id : all) expect_same(some, id, id == 4 || id == 1 ? together : none, id);
}

/// limit(name, id, the CPU's numbers): how far those of a GPU may be. A replica has the same bits alone and among 64.
void check_cuda(const RunStep& run, const auto& limit) {
  std::vector<int> ids = {0, 1, 2, 3, 4}, many;
  if (few_replicas()) ids = {0, 1};
  const Exec gpu = {.device = Device::cuda};
  const Left want = run(ids, {}), got = run(ids, gpu);
  for (const auto& [name, all] : want) {
    for (const int id : ids) {
      const Numbers& w = all.at(static_cast<std::size_t>(id));
      EXPECT_TRUE(close(name, got.at(name).at(static_cast<std::size_t>(id)).data(), w.data(),
                        static_cast<std::int64_t>(w.size()), limit(name, id, w)));
    }
  }
  for (const int id : ids) expect_same(run({id}, gpu), 0, got, id);
  if (few_replicas()) return;
  for (int i = 0; i < 64; ++i) many.push_back(i % 5);
  const Left company = run(many, gpu);
  for (const int i : {0, 1, 33, 57, 63}) expect_same(company, i, got, i % 5);
}

/// Rounding of a number on CUDA.
template <class Real>
constexpr double cuda_eps() {
  return std::is_same_v<Real, double> ? 1e-12 / 64 : std::numeric_limits<Real>::epsilon();
}

}  // namespace crosstalk::checks
