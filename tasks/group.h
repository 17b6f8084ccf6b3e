// Finite groups by name ("Z2", "S3", "A5", "A4xZ5") or by a multiplication table.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/error.h"

namespace crosstalk {

/// Elements are 0 .. order-1. Permutations stand in lexicographic order, so the identity of a named group is 0.
struct Group {
  int order = 0;
  int identity = 0;
  std::vector<std::int32_t> table;  ///< [order, order]; a b is table[a * order + b]
  std::vector<std::string> names;   ///< of the elements: "e", "(0 1)", "3"
  std::vector<int> moved;           ///< points that an element moves; empty where it is no permutation

  std::int32_t product(std::int32_t a, std::int32_t b) const {
    return table[static_cast<std::size_t>(a) * static_cast<std::size_t>(order) + static_cast<std::size_t>(b)];
  }
};

/// Largest order of a group.
inline constexpr int kLargestGroup = 1024;

/// Z<n> (sums modulo n), S<n> (permutations of n points; (a b)(i) = a(b(i))), A<n> (the even ones), and direct products of
/// those with 'x' between. Throws OptionError for `key`.
Group named_group(const std::string& key, const std::string& name);

/// Rows of element numbers, separated by ';', numbers by blanks: "0 1; 1 0". Throws OptionError for `key` unless it is a
/// group.
Group group_of_table(const std::string& key, const std::string& text);

}  // namespace crosstalk
