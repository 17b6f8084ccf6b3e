// How numbers of channels start as ramps: laws of the channel's number and of the depth of the layer. Without libm, so that
// the bits are the same everywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk {

/// RWKV-7 (Peng et al. 2025, arXiv 2503.14456, as in fla-org/flash-linear-attention fla/layers/rwkv7.py), of N = H K channels n
/// and a layer at `depth` in [0, 1]. With z = y |y|, y = 2 (n mod K) / (K - 1) - 1:
struct Rwkv7Starts {
  std::vector<double> decay;        ///< -6 + 6 (n / (N - 1))^(1 + depth^0.3) + 0.5 + 2.5 z
  std::vector<double> rate;         ///< -0.19 + 0.3 z + 0.4 (n / (N - 1) - 0.5)
  std::vector<double> erase_scale;  ///< 0.71 - 0.1 (n / (N - 1) - 0.5)
};
Rwkv7Starts rwkv7_starts(int H, int K, double depth);
/// Ranks of RWKV-7's low-rank maps: factor sqrt(width) in whole multiples of 32, half to even, at least 32 (there: 2.5 K / 64 of decays and
/// rates, 1.7 K / 64 of value_residual, 5 of the gate).
int rwkv7_rank(double factor, int width);
/// RWKV-7's share of the first layer's values, before the sigmoid, of N channels n: 0.73 - 0.4 (n / (N - 1) - 0.5).
std::vector<double> value_residual_starts(int N);

/// RWKV-6 (BlinkDL/RWKV-LM RWKV-v5/src/model.py) and RWKV-4 (RWKV-v4/src/model.py), of N channels n:
struct RwkvStarts {
  std::vector<double> decay;  ///< 6: -6 + 5 (n / (N - 1))^(0.7 + 1.3 depth); 4: -5 + 8 of the same
  std::vector<double>
      bonus;  ///< with z = (n + 1) % 3 - 1; 6: depth (1 - n / (N - 1)) + 0.1 z; 4: log 0.3 + 0.5 z
};
/// Shares of the token before, 1 - (n / N)^power - lift: how RWKV-4, 6 and 7 start them.
std::vector<double> shift_starts(int N, double power, double lift = 0);
/// The ramp that a law calls so (docs/rules.md), of H heads of n numbers in a layer at `depth`; none of that name: empty.
std::vector<double> ramp(const std::string& name, int H, int n, double depth);
std::vector<std::string> ramp_names();
RwkvStarts rwkv6_starts(int N, double depth);
RwkvStarts rwkv4_starts(int N, double depth);

}  // namespace crosstalk
