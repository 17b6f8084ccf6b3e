// The scale of a gradient's norm against clip_grad_norm_, and its independence of packs, threads and devices.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/clip.h"

#include "kernels/testing/step_check.h"

namespace crosstalk::checks::clip_test {
namespace {

double entry(int r, int i) {
  RandomStream random(4, RandomDomain::initialisation, static_cast<std::uint32_t>(r),
                      static_cast<std::uint32_t>(i));
  return normal_from_uniform(random.uniform());
}

/// Scales of replicas `ids` of P numbers each.
template <class Real>
Left scales(const std::vector<int>& ids, int P, double limit, const Exec& exec = {}) {
  const Device device = exec.device;
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
  run(exec, ClipScale<Real>{limit, set.real("gradient"), set.precise("partial"), set.precise("scale")});
  set.check_overruns();
  Left left;
  keep(left, "scale", device, set.precise("scale"));
  return left;
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
      EXPECT_NEAR(scales<Real>({2}, P, limit)["scale"][0][0], want, 1e-13 * want)
          << P << " numbers, limit " << limit;
    }
  }
}

TEST(ClipScale, IsTheLimitOverTheNorm) {
  check_scale<double>();
  check_scale<float>();
}

template <class Real>
RunStep scaled(int P, double limit) {
  return [=](const std::vector<int>& ids, const Exec& exec) { return scales<Real>(ids, P, limit, exec); };
}

TEST(ClipScale, KnowsNeitherNeighboursNorThreads) { check_replicas(scaled<float>(2 * kClipBlock + 77, 1)); }

class ClipScaleOnCuda : public CudaTest {};

template <class Real>
void check_on_cuda() {
  for (const int P : {1, 3, kClipBlock - 1, kClipBlock, 20001})
    check_cuda(scaled<Real>(P, 0.5), [P](const std::string&, int, const Numbers&) {
      return 4 * cuda_eps<Real>() * (4 + std::sqrt(P));
    });
}

TEST_F(ClipScaleOnCuda, IsThatOfTheCpu) {
  check_on_cuda<double>();
  check_on_cuda<float>();
}

}  // namespace
}  // namespace crosstalk::checks::clip_test
