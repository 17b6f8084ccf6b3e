// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/probe_theory.h"

#include <cmath>
#include <string>

#include "results/numbers/select.h"

namespace crosstalk {
namespace {

/// 0F1(; a; x) by its series, all of whose terms are positive; its logarithm, for x may be large.
double log_0f1(double a, double x) {
  double term = 1, sum = 1, log_of = 0;
  for (int i = 1; i < 10000; ++i) {
    term *= x / (i * (a + i - 1));
    sum += term;
    if (term < 1e-17 * sum) break;
    if (sum > 1e200) log_of += std::log(sum), term /= sum, sum = 1;
  }
  return log_of + std::log(sum);
}

double mean_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

}  // namespace

ProbeRead sum_rule_read(double n, double d) { return {1, (n - 1) / d}; }

ProbeRead least_squares_read(double n, double d) {
  const double s = std::min(1.0, d / n);
  return {s, s * (1 - s)};
}

// F: |S|_F^2. G: what is read of one key, squared, after its write and after each later one.
std::vector<ProbeRead> delta_rule_reads(int n, double d, double beta) {
  std::vector<double> F(static_cast<std::size_t>(n) + 1, 0);
  for (std::size_t t = 1; t < F.size(); ++t)
    F[t] = F[t - 1] * (1 - (2 * beta - beta * beta) / d) + beta * beta;
  std::vector<ProbeRead> reads;
  const double pair = d * (d + 2);  // E (x.k)^2 (y.k)^2 has this below
  for (int i = 1; i <= n; ++i) {
    double G = beta * beta + (1 - beta) * (1 - beta) * F[static_cast<std::size_t>(i) - 1] / d;
    for (int t = i + 1; t <= n; ++t)
      G = G * (1 - 2 * beta / d + 2 * beta * beta / pair) + beta * beta / d +
          beta * beta * F[static_cast<std::size_t>(t) - 1] / pair;
    const double s = beta * std::pow(1 - beta / d, n - i);
    reads.push_back({s, std::max(0.0, G - s * s)});
  }
  return reads;
}

ProbeRead softmax_read(double n, double d, double sharpness) {
  const double b = sharpness, others = std::log(n - 1);
  const double p = 1 / (1 + std::exp(others - b + log_0f1(d / 2, b * b / 4)));
  return {p, p * p * std::exp(others - 2 * b + log_0f1(d / 2, b * b))};
}

double squared_error(const ProbeRead& read) { return (1 - read.signal) * (1 - read.signal) + read.noise; }

double recall(const ProbeRead& read, double d_v, double codes) {
  const double s = read.signal, x = read.noise / d_v, width = std::sqrt(x + s * s / d_v);
  if (!(width > 0)) return 1 / codes;
  constexpr int kSteps = 800;
  constexpr double kFar = 8;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = kFar * (2.0 * i / kSteps - 1);
    sum += std::exp(-z * z / 2) * std::pow(mean_below((s + std::sqrt(x) * z) / width), codes - 1);
  }
  return sum * 2 * kFar / kSteps / std::sqrt(2 * std::acos(-1.0));
}

double all_right_load(double d, double c) {
  double n = std::max(3.0, d * d / c);
  for (int i = 0; i < 500; ++i) n = 0.5 * n + 0.5 * std::max(1.5, d * d / c / std::log(n));
  return n;
}

std::optional<std::vector<ProbeRead>> probe_reads(const Record& record, int n) {
  const auto text = [&](const char* key) { return config_text(record, key).value_or(""); };
  const auto is = [&](const char* key, const char* value) { return text(key).empty() || text(key) == value; };
  if (text("model.name") != "probe" || text("task.name") != "recall" || !is("model.probe_keys", "random"))
    return std::nullopt;
  if (!is("memory.feature_map", "identity") || !is("memory.read_norm", "none") ||
      text("memory.key_norm") == "sum")
    return std::nullopt;
  const double d = config_number(record, "model.d_key").value_or(0);
  const std::string memory = text("memory.name");
  if (memory == "linear_attention") return {{sum_rule_read(n, d)}};
  if (memory == "mesa") return {{least_squares_read(n, d)}};
  if (memory == "delta" || memory == "deltanet")
    return delta_rule_reads(n, d, config_number(record, "memory.beta_max").value_or(1));
  if (memory == "softmax" && n > 1)
    return {{softmax_read(n, d, config_number(record, "model.probe_scale").value_or(d / 2))}};
  return std::nullopt;
}

}  // namespace crosstalk
