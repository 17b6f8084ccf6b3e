// Sizes of tensors: whole numbers of any type that fit an int, and products of sizes that do. A product of two ints that has
// wrapped around would be another size without a word.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <limits>
#include <string>
#include <utility>

#include "kernels/base/error.h"

namespace crosstalk {

/// An int whose products are checked.
class Size {
 public:
  template <std::integral From>
  explicit constexpr Size(From n) : n_(static_cast<int>(n)) {
    if (!std::in_range<int>(n)) refuse(std::to_string(n));
  }
  constexpr operator int() const { return n_; }
  friend constexpr Size operator*(Size a, Size b) { return product(a, b); }
  template <std::same_as<int> Int>
  friend constexpr Size operator*(Size a, Int b) {
    return product(a, b);
  }
  template <std::same_as<int> Int>
  friend constexpr Size operator*(Int a, Size b) {
    return product(a, b);
  }

 private:
  static constexpr Size product(int a, int b) {
    const long long n = static_cast<long long>(a) * b;
    if (!std::in_range<int>(n)) refuse(std::to_string(a) + " x " + std::to_string(b));
    return Size(n);
  }
  [[noreturn]] static void refuse(const std::string& numbers) {
    throw ShapeError("a state or another tensor would have " + numbers + " numbers in a row, and at most " +
                     std::to_string(std::numeric_limits<int>::max()) +
                     " are covered; smaller keys, values, features or batches need fewer");
  }
  int n_;
};

/// A dimension of a shape that is written down: any whole number that is a size.
struct Dimension {
  int n;
  template <std::integral From>
  constexpr Dimension(From from) : n(Size(from)) {}
  constexpr Dimension(Size size) : n(size) {}
  constexpr operator int() const { return n; }
};

}  // namespace crosstalk
