// SPDX-License-Identifier: Apache-2.0
#include "models/ramps.h"

#include "kernels/base/random.h"

namespace crosstalk {
namespace {

/// x^p, 0 <= x.
double power(double x, double p) { return x > 0 ? portable_exp(p * portable_log(x)) : 0; }

}  // namespace

Rwkv7Starts rwkv7_starts(int H, int K, double depth) {
  Rwkv7Starts start;
  const int N = H * K;
  for (int n = 0; n < N; ++n) {
    const double x = N > 1 ? static_cast<double>(n) / (N - 1) : 0;
    const double y = K > 1 ? 2.0 * (n % K) / (K - 1) - 1 : 0, z = y < 0 ? -y * y : y * y;
    start.decay.push_back(-6 + 6 * power(x, 1 + power(depth, 0.3)) + 0.5 + 2.5 * z);
    start.rate.push_back(-0.19 + 0.3 * z + 0.4 * (x - 0.5));
    start.erase_scale.push_back(0.71 - 0.1 * (x - 0.5));
  }
  return start;
}

}  // namespace crosstalk
