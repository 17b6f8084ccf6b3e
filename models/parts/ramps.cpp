// SPDX-License-Identifier: Apache-2.0
#include "models/parts/ramps.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/random.h"

namespace crosstalk {
namespace {

/// x^p, 0 <= x.
double power(double x, double p) { return x > 0 ? portable_exp(p * portable_log(x)) : 0; }

/// Channel n of N as a number from 0 to 1.
double place(int n, int N) { return N > 1 ? static_cast<double>(n) / (N - 1) : 0; }

int zigzag(int n) { return (n + 1) % 3 - 1; }

}  // namespace

std::vector<double> shift_starts(int N, double exponent, double lift) {
  std::vector<double> shares;
  for (int n = 0; n < N; ++n) shares.push_back(1 - power(static_cast<double>(n) / N, exponent) - lift);
  return shares;
}

RwkvStarts rwkv6_starts(int N, double depth) {
  RwkvStarts start;
  for (int n = 0; n < N; ++n) {
    start.decay.push_back(-6 + 5 * power(place(n, N), 0.7 + 1.3 * depth));
    start.bonus.push_back(depth * (1 - place(n, N)) + 0.1 * zigzag(n));
  }
  return start;
}

RwkvStarts rwkv4_starts(int N, double depth) {
  constexpr double kLog03 = -1.2039728043259361;
  RwkvStarts start;
  for (int n = 0; n < N; ++n) {
    start.decay.push_back(-5 + 8 * power(place(n, N), 0.7 + 1.3 * depth));
    start.bonus.push_back(kLog03 + 0.5 * zigzag(n));
  }
  return start;
}

int rwkv7_rank(double factor, int width) {
  return 32 *
         std::max(1, static_cast<int>(std::nearbyint(factor * std::sqrt(static_cast<double>(width)) / 32)));
}

std::vector<double> value_residual_starts(int N) {
  std::vector<double> shares;
  for (int n = 0; n < N; ++n) shares.push_back(0.73 - 0.4 * (place(n, N) - 0.5));
  return shares;
}

Rwkv7Starts rwkv7_starts(int H, int K, double depth) {
  Rwkv7Starts start;
  const int N = H * K;
  for (int n = 0; n < N; ++n) {
    const double x = place(n, N);
    const double y = K > 1 ? 2.0 * (n % K) / (K - 1) - 1 : 0, z = y < 0 ? -y * y : y * y;
    start.decay.push_back(-6 + 6 * power(x, 1 + power(depth, 0.3)) + 0.5 + 2.5 * z);
    start.rate.push_back(-0.19 + 0.3 * z + 0.4 * (x - 0.5));
    start.erase_scale.push_back(0.71 - 0.1 * (x - 0.5));
  }
  return start;
}

namespace {

std::vector<double> slstm_biases(int n, double power) {
  std::vector<double> biases;
  for (int i = 0; i < n; ++i) biases.push_back(5 - 12 * std::pow(place(i, n), power));
  return biases;
}

struct Ramp {
  const char* name;
  std::vector<double> (*numbers)(int H, int n, double depth);
};
const Ramp kRamps[] = {
    {"counted",  // log 1, log 2, ..
     [](int, int n, double) {
       std::vector<double> logs;
       for (int i = 1; i <= n; ++i) logs.push_back(portable_log(i));
       return logs;
     }},
    // 5 - 12 x^p over the channels of a head; p is 0.3 (input), or 0.3 + 1.3 depth, as the released code runs (layers).
    {"slstm.input", [](int, int n, double) { return slstm_biases(n, 0.3); }},
    {"slstm.layers", [](int, int n, double depth) { return slstm_biases(n, 0.3 + 1.3 * depth); }},
    {"rwkv4.decay", [](int H, int n, double depth) { return rwkv4_starts(H * n, depth).decay; }},
    {"rwkv4.bonus", [](int H, int n, double depth) { return rwkv4_starts(H * n, depth).bonus; }},
    {"rwkv6.decay", [](int H, int n, double depth) { return rwkv6_starts(H * n, depth).decay; }},
    {"rwkv6.bonus", [](int H, int n, double depth) { return rwkv6_starts(H * n, depth).bonus; }},
    {"rwkv7.decay", [](int H, int n, double depth) { return rwkv7_starts(H, n, depth).decay; }},
    {"rwkv7.rate", [](int H, int n, double depth) { return rwkv7_starts(H, n, depth).rate; }},
    {"rwkv7.erase_scale", [](int H, int n, double depth) { return rwkv7_starts(H, n, depth).erase_scale; }},
};

}  // namespace

std::vector<double> ramp(const std::string& name, int H, int n, double depth) {
  for (const Ramp& one : kRamps)
    if (one.name == name) return one.numbers(H, n, depth);
  return {};
}

std::vector<std::string> ramp_names() {
  std::vector<std::string> names;
  for (const Ramp& one : kRamps) names.emplace_back(one.name);
  return names;
}

}  // namespace crosstalk
