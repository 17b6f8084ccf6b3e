// The scale of a gradient's norm against clip_grad_norm_, and its independence of packs, threads and devices.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/clip.h"

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks::clip_test {
namespace {

double entry(int r, int i) {
  RandomStream random(4, RandomDomain::initialisation, static_cast<std::uint32_t>(r),
                      static_cast<std::uint32_t>(i));
  return normal_from_uniform(random.uniform());
}

/// Scales of replicas `ids` of P numbers each.
template <class Real>
Numbers scales(const std::vector<int>& ids, int P, double limit, int threads = 1,
               Device device = Device::cpu) {
  const int R = static_cast<int>(ids.size());
  TensorSet<Real> set(device);
  set.reals.add("gradient", R, {P});
  set.doubles.add("partial", R, {clip_blocks(P)});
  set.doubles.add("scale", R, {1});
  set.allocate();
  for (int r = 0; r < R; ++r) {
    Numbers g;
    for (int i = 0; i < P; ++i) g.push_back(entry(ids[r], i));
    upload(device, set.real("gradient"), r, g);
  }
  Exec exec;
  exec.threads = threads;
  exec.device = device;
  run(exec, ClipScale<Real>{limit, set.real("gradient"), set.precise("partial"), set.precise("scale")});
  Numbers result;
  for (int r = 0; r < R; ++r) result.push_back(download(device, set.precise("scale"), r)[0]);
  set.check_overruns();
  return result;
}

template <class Real>
void check_scale() {
  for (const int P : {1, 7, kClipBlock, kClipBlock + 1, 3 * kClipBlock + 5}) {
    long double squares = 0;
    for (int i = 0; i < P; ++i) {
      const auto g = static_cast<long double>(static_cast<Real>(entry(2, i)));
      squares += g * g;
    }
    const double norm = static_cast<double>(std::sqrt(squares));
    for (const double limit : {1e-3 * norm, 0.5 * norm, norm, 2 * norm}) {
      const double want = std::min(1., limit / (norm + 1e-6));
      EXPECT_NEAR(scales<Real>({2}, P, limit)[0], want, 1e-13 * want) << P << " numbers, limit " << limit;
    }
  }
}

TEST(ClipScale, IsTheLimitOverTheNorm) {
  check_scale<double>();
  check_scale<float>();
}

TEST(ClipScale, KnowsNeitherNeighboursNorThreads) {
  const int P = 2 * kClipBlock + 77;
  const Numbers together = scales<float>({0, 1, 2}, P, 1);
  for (int id = 0; id < 3; ++id) EXPECT_EQ(scales<float>({id}, P, 1)[0], together[id]);
  EXPECT_EQ(scales<float>({0, 1, 2}, P, 1, 3), together);
}

class ClipScaleOnCuda : public CudaTest {};

template <class Real>
void check_cuda() {
  std::vector<int> ids = {0, 1, 2, 3, 4}, many;
  if (few_replicas()) ids = {0, 1};
  for (int i = 0; i < 64; ++i) many.push_back(i % 5);
  const double eps = std::is_same_v<Real, double> ? 1e-12 / 64 : std::numeric_limits<Real>::epsilon();
  for (const int P : {1, 3, kClipBlock - 1, kClipBlock, 20001}) {
    const Numbers want = scales<Real>(ids, P, 0.5), got = scales<Real>(ids, P, 0.5, 1, Device::cuda);
    EXPECT_TRUE(close("scale", got.data(), want.data(), static_cast<std::int64_t>(ids.size()),
                      4 * eps * (4 + std::sqrt(P))));
    for (const int id : ids) EXPECT_EQ(scales<Real>({id}, P, 0.5, 1, Device::cuda)[0], got[id]);
    if (few_replicas()) continue;
    const Numbers company = scales<Real>(many, P, 0.5, 1, Device::cuda);
    for (std::size_t i = 0; i < company.size(); ++i) EXPECT_EQ(company[i], got[i % 5]);
  }
}

TEST_F(ClipScaleOnCuda, IsThatOfTheCpu) {
  check_cuda<double>();
  check_cuda<float>();
}

}  // namespace
}  // namespace crosstalk::checks::clip_test
