// Memories at the ends of what their inputs may be, on any device, against the CPU in double: decays that hardly fade and that leave
// nothing, gates of thousands, few tokens and numbers of tokens beside the borders of chunks, pieces against the whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/testing/apply_check.h"

namespace crosstalk::checks {

/// A memory by default, all optional inputs but states given where it takes them, with keys that stay short.
struct Extreme {
  ApplyCase one;
  ApplyData data;
};
inline Extreme extreme(const std::string& memory, ApplySizes sizes) {
  if (has_option(*find_memory(memory), "writes")) sizes.N = 2;
  Extreme e{apply_cases(memory, sizes).front(), {}};
  e.data = apply_data(e.one, 23);
  for (const char* name : {"q", "k", "erase_key", "a", "b"})
    for (double& x : e.data[name]) x /= std::sqrt(sizes.K);
  for (const ApplyInput& input : apply_inputs(e.one.of(), e.one.sizes))  // matrices that a state goes through
    if (input.shape == "[H,V,V]")
      for (double& x : e.data[input.name]) x /= 2 * std::sqrt(sizes.V);
  for (auto& [name, x] : e.data)
    for (double& number : x) number = static_cast<float>(number);
  return e;
}
inline bool has_input(const Extreme& e, const std::string& name) {
  return declared_input(e.one.memory, name) != nullptr;
}

inline const char* named(Device device) { return device == Device::cuda ? "CUDA" : "CPU"; }

inline double size_of(const Vector& x) {
  double largest = 0;
  for (const double e : x) largest = std::max(largest, std::abs(e));
  return largest;
}

/// Every form on a device, in both precisions. What is read and kept is held to its own size, however small; gradients, which
/// may be differences, to a hundredth of the largest where they are smaller.
inline void expect_extreme(const Extreme& e, Device device, double limit) {
  const ApplyResult want = apply<double>(e.one, "", e.data);
  double least = 1e-3;
  for (const auto& [name, x] : want)
    if (name.starts_with("d_")) least = std::max(least, size_of(x) / 100);
  const auto held = [&](const ApplyResult& got, double share) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [name, x] : want) {
      const double size = name.starts_with("d_") ? std::max(least, size_of(x)) : std::max(1e-30, size_of(x));
      ASSERT_TRUE(close(name, got.at(name).data(), x.data(), std::ssize(x), share * size));
    }
  };
  for (const std::string& form : forms_of(e.one)) {
    SCOPED_TRACE(fmt::format("{} {} T={} {}", e.one.memory, form, e.one.sizes.T, named(device)));
    ASSERT_NO_FATAL_FAILURE(held(apply<double>(e.one, form, e.data, device), 1e-9)) << "fp64";
    if (smooth(e.one.options())) {
      ASSERT_NO_FATAL_FAILURE(held(apply<float>(e.one, form, e.data, device), limit)) << "fp32";
    }
  }
}
/// LayerNorm of few values, step after step, divides by what may be small.
inline double limit_of(const Extreme& e, double limit) {
  const bool inside = has_input(e, "gain") || e.one.memory == "fwm" || e.one.memory.starts_with("titans") ||
                      e.one.memory.starts_with("ttt") ||
                      e.one.memory == "gka";  // a system whose condition is 51
  return inside ? 50 * limit : limit;
}

inline void expect_decays(const std::string& memory, Device device) {
  Extreme e = extreme(memory, {.B = 1, .T = 7, .H = 2, .K = 3, .V = 3});
  for (const double decay : {0.0, -1e-6, -1e-4, -50.0, -1e4}) {
    bool decays = false;
    for (const char* name : {"log_decay", "log_decay_v", "log_decay_a"}) {
      if (!has_input(e, name)) continue;
      decays = true;
      for (double& x : e.data[name]) x = static_cast<float>(decay);
    }
    if (!decays) return;
    SCOPED_TRACE(fmt::format("log decay {}", decay));
    ASSERT_NO_FATAL_FAILURE(expect_extreme(e, device, limit_of(e, 3e-5)));
  }
}

/// Gates before their sigmoid or exponential, of a size at which nothing of the other side is left, or a little.
inline void expect_gates(const std::string& memory, Device device) {
  Extreme e = extreme(memory, {.B = 1, .T = 7, .H = 2, .K = 3, .V = 3});
  for (const double size : {12.0, -12.0, 2000.0}) {
    bool gates = false;
    RandomStream random(29, RandomDomain::initialisation, 0);
    for (const char* name : {"log_input", "input_gate", "forget_gate", "update_gate", "output_gate"}) {
      if (!has_input(e, name) || declared_input(memory, name)->range.given()) continue;
      gates = true;
      for (double& x : e.data[name])
        x = static_cast<float>(size > 100 ? size * normal_from_uniform(random.uniform()) : size);
    }
    if (!gates) return;
    if (memory == "mlstm") {  // log sigmoid of such numbers
      for (double& x : e.data["log_decay"])
        x = static_cast<float>(std::min(std::abs(size) * normal_from_uniform(random.uniform()), -1e-6));
      for (const char* name : {"q", "k"})  // sums that divide do not vanish
        for (double& x : e.data[name]) x = std::abs(x) + 0.125f;
    }
    SCOPED_TRACE(fmt::format("gates of {}", size));
    // An exponent of 2000 in single precision is off by 1e-4 a token.
    ASSERT_NO_FATAL_FAILURE(expect_extreme(e, device, size > 100 ? 1e-2 : 3e-5));
  }
}

inline void expect_lengths(const std::string& memory, Device device, const std::vector<int>& lengths, int K) {
  for (const int T : lengths) {
    const Extreme e = extreme(memory, {.B = 1, .T = T, .H = 2, .K = K, .V = K});
    ASSERT_NO_FATAL_FAILURE(expect_extreme(e, device, limit_of(e, 2e-4)));
  }
}

/// Where every number of an input is large, what double precision can hold single precision does not lose.
inline void expect_large(const std::string& memory, Device device) {
  const Extreme plain = extreme(memory, {.B = 1, .T = 3, .H = 2, .K = 3, .V = 3});
  for (const MemoryInput& input : find_memory(memory)->inputs) {
    const bool logarithm = input.name.starts_with("log_decay");
    if (input.unit || input.name == "signed_decay" || (input.range.given() && !logarithm) ||
        (input.optional && input.per == Per::other))
      continue;
    for (const double size : {-1000.0, -100.0, 89.0, 100.0, 1000.0}) {
      if (logarithm && size > 0) continue;
      Extreme e = plain;
      for (double& x : e.data[input.name]) x = size;
      for (const std::string& form : forms_of(e.one)) {
        SCOPED_TRACE(fmt::format("{} {}: {} = {}", memory, form, input.name, size));
        const ApplyResult want = apply<double>(e.one, form, e.data),
                          got = apply<float>(e.one, form, e.data, device);
        double most = 0;  // products of few such numbers leave the range of single precision
        for (const auto& [name, x] : want)
          for (const double number : x)
            most = std::max(most, std::isfinite(number) ? std::abs(number) : 1e300);
        if (most > 1e12) continue;
        for (const auto& [name, x] : got)
          for (const double number : x) ASSERT_TRUE(std::isfinite(number)) << name;
      }
    }
  }
}

/// Pieces of `cut` tokens, each from the states that the one before has left, read as the whole.
template <class Real>
void expect_pieces_of(const Extreme& whole, int cut, Device device, double limit) {
  std::vector<int> ends;
  for (int t = 0; t < whole.one.sizes.T;) ends.push_back(t = std::min(t + cut, whole.one.sizes.T));
  const Vector want = apply<double>(whole.one, "", whole.data).at("o"),
               o = apply_in_pieces<Real>(whole.one, "", whole.data, ends, device).at("o");
  ASSERT_EQ(o.size(), want.size());
  ASSERT_TRUE(close("o", o.data(), want.data(), std::ssize(o), limit * size_of(want)));
}

inline void expect_all_pieces(const std::string& memory, Device device, int T, const std::vector<int>& cuts,
                              int K) {
  if (find_memory(memory)->states.empty()) return;
  const Extreme whole = extreme(memory, {.B = 1, .T = T, .H = 2, .K = K, .V = K});
  for (const int cut : cuts) {
    SCOPED_TRACE(fmt::format("{} T={} in pieces of {} on {}", memory, T, cut, named(device)));
    ASSERT_NO_FATAL_FAILURE(expect_pieces_of<double>(whole, cut, device, 1e-9));
    ASSERT_NO_FATAL_FAILURE(expect_pieces_of<float>(whole, cut, device, limit_of(whole, 2e-4)));
  }
}

}  // namespace crosstalk::checks
