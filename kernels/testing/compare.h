// Comparison of computed numbers with wanted ones: fails on anything that is not finite, shows the worst
// element and its share of the tolerance.
//
// A tolerance is derived, never chosen: factor * eps(type) * (roundings on the longest path) * magnitude.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/base/tensor.h"

namespace crosstalk::checks {

/// Allowed absolute error of a result that `length` roundings lead to, each relative to `magnitude`.
struct Tolerance {
  double eps = 0, length = 1, magnitude = 1;
  double factor = 2;  ///< room for the order of a sum and for library functions
  double limit() const { return factor * eps * length * magnitude; }
};

template <class Real>
Tolerance tolerance(double length, double magnitude) {
  return {static_cast<double>(std::numeric_limits<Real>::epsilon()), length, magnitude, 2};
}

/// Largest absolute value; NaN if any element is.
double magnitude(const auto* x, std::int64_t n) {
  double m = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = std::abs(static_cast<double>(x[i]));
    if (std::isnan(a)) return a;
    m = std::max(m, a);
  }
  return m;
}

/// "[2, 0, 7]": the index of element i in a row-major array.
inline std::string index_text(std::int64_t i, std::vector<int> dims) {
  if (dims.empty()) dims = {static_cast<int>(i) + 1};
  std::string text;
  for (std::size_t d = dims.size(); d-- > 0;) {
    text = fmt::format("{}{}{}", i % dims[d], text.empty() ? "" : ", ", text);
    i /= dims[d];
  }
  return "[" + text + "]";
}

/// |got - want| <= limit for each of n elements, all finite.
::testing::AssertionResult close(const std::string& what, const auto* got, const auto* want, std::int64_t n,
                                 double limit, const std::vector<int>& dims = {}) {
  std::int64_t worst = -1, bad = 0;
  double worst_error = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    const double g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    double error = std::abs(g - w);
    if (!std::isfinite(g) || !std::isfinite(w)) error = std::numeric_limits<double>::infinity();
    if (!(error <= limit)) ++bad;
    if (!(error <= worst_error)) worst = i, worst_error = error;
  }
  if (bad == 0 && std::isfinite(limit)) return ::testing::AssertionSuccess();
  if (worst < 0) return ::testing::AssertionFailure() << what << ": tolerance is not finite";
  return ::testing::AssertionFailure() << fmt::format(
             "{}: {} of {} elements are off; worst at {}: got {:.17g}, want {:.17g}, error {:.3g}, {:.3g} of the tolerance {:.3g}",
             what, bad, n, index_text(worst, dims), static_cast<double>(got[worst]),
             static_cast<double>(want[worst]), worst_error, worst_error / limit, limit);
}

/// The same for tensors of equal shape, all replicas.
template <class Got, class Want>
::testing::AssertionResult close(const std::string& what, const Tensor<Got>& got, const Tensor<Want>& want,
                                 double limit) {
  if (got.R != want.R || got.rank != want.rank || !std::equal(got.dims, got.dims + got.rank, want.dims))
    return ::testing::AssertionFailure() << what << ": shapes differ";
  for (int r = 0; r < got.R; ++r) {
    auto result = close(fmt::format("{}, replica {}", what, r), got.at(r), want.at(r), got.size(), limit,
                        std::vector<int>(got.dims, got.dims + got.rank));
    if (!result) return result;
  }
  return ::testing::AssertionSuccess();
}

/// max|got - want| / max|want|; infinite where something is not finite.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, size = 1e-300;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, std::abs(got[i] - want[i])), size = std::max(size, std::abs(want[i]));
  }
  return error / size;
}

/// Equal bytes.
template <class T>
::testing::AssertionResult identical(const std::string& what, const T* got, const T* want, std::int64_t n) {
  if (n == 0 || std::memcmp(got, want, static_cast<std::size_t>(n) * sizeof(T)) == 0)
    return ::testing::AssertionSuccess();
  std::int64_t i = 0;
  while (std::memcmp(got + i, want + i, sizeof(T)) == 0) ++i;
  return ::testing::AssertionFailure()
         << fmt::format("{}: bits differ first at element {}: {:.17g} and {:.17g}", what, i,
                        static_cast<double>(got[i]), static_cast<double>(want[i]));
}

/// The same of numbers that are finite: NaN against NaN shows nothing.
template <class T>
::testing::AssertionResult same_numbers(const std::string& what, const T* got, const T* want,
                                        std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(static_cast<double>(want[i])))
      return ::testing::AssertionFailure()
             << fmt::format("{}: element {} is {}", what, i, static_cast<double>(want[i]));
  }
  return identical(what, got, want, n);
}

}  // namespace crosstalk::checks
