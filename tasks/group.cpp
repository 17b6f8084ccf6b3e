// SPDX-License-Identifier: Apache-2.0
#include "tasks/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <sstream>

#include "tasks/number_groups.h"

namespace crosstalk {
namespace {

using Permutation = std::vector<int>;

Group cyclic(int n) {
  Group group;
  group.order = n;
  for (int a = 0; a < n; ++a) {
    for (int b = 0; b < n; ++b) group.table.push_back((a + b) % n);
    group.names.push_back(fmt::format("{}", a));
  }
  return group;
}

/// "(0 1)(2 3)", "e".
std::string cycles(const Permutation& p) {
  std::string text;
  std::vector<bool> seen(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (seen[i] || p[i] == static_cast<int>(i)) continue;
    std::string cycle;
    for (std::size_t j = i; !seen[j]; j = static_cast<std::size_t>(p[j])) {
      seen[j] = true;
      cycle += fmt::format("{}{}", cycle.empty() ? "" : " ", j);
    }
    text += "(" + cycle + ")";
  }
  return text.empty() ? "e" : text;
}

bool even(const Permutation& p) {
  int inversions = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) inversions += p[j] > p[i];
  return inversions % 2 == 0;
}

Group permutations(int n, bool only_even) {
  std::vector<Permutation> elements;
  std::map<Permutation, int> number;
  Permutation p(static_cast<std::size_t>(n));
  std::iota(p.begin(), p.end(), 0);
  do {
    if (only_even && !even(p)) continue;
    number[p] = static_cast<int>(elements.size());
    elements.push_back(p);
  } while (std::next_permutation(p.begin(), p.end()));
  Group group;
  group.order = static_cast<int>(elements.size());
  for (const Permutation& a : elements) {
    for (const Permutation& b : elements) {
      for (std::size_t i = 0; i < p.size(); ++i) p[i] = a[static_cast<std::size_t>(b[i])];
      group.table.push_back(number.at(p));
    }
    group.names.push_back(cycles(a));
    int moved = 0;
    for (std::size_t i = 0; i < a.size(); ++i) moved += a[i] != static_cast<int>(i);
    group.moved.push_back(moved);
  }
  return group;
}

Group product(const Group& g, const Group& h) {
  Group group;
  group.order = g.order * h.order;
  for (int a = 0; a < group.order; ++a) {
    for (int b = 0; b < group.order; ++b)
      group.table.push_back(g.product(a / h.order, b / h.order) * h.order +
                            h.product(a % h.order, b % h.order));
    group.names.push_back(fmt::format("{}.{}", g.names[static_cast<std::size_t>(a / h.order)],
                                      h.names[static_cast<std::size_t>(a % h.order)]));
  }
  return group;
}

/// Order of Z<n>, S<n>, A<n>, capped above what is supported; 0 if that is no name.
std::int64_t order_of(char kind, int n) {
  if (n < 1) return 0;
  if (kind == 'Z') return n;
  if (kind != 'S' && kind != 'A') return 0;
  std::int64_t order = 1;
  for (int i = 2; i <= n && order <= 4 * kLargestGroup; ++i) order *= i;
  return kind == 'A' && n > 1 ? order / 2 : order;
}

}  // namespace

Group named_group(const std::string& key, const std::string& name) {
  Group group = cyclic(1);
  std::istringstream factors(name);
  std::int64_t order = 1;
  bool first = true;
  for (std::string factor; std::getline(factors, factor, 'x'); first = false) {
    int n = 0;
    const char* end = factor.data() + factor.size();
    const bool number = factor.size() > 1 && std::from_chars(factor.data() + 1, end, n).ptr == end;
    const std::int64_t own = number ? order_of(factor[0], n) : 0;
    if (own == 0)
      throw OptionError(
          key, fmt::format("{} = \"{}\": \"{}\" names no group; give Z<n>, S<n> or A<n>, as Z2 or S5, a "
                           "direct product of those, as A4xZ5, or \"table\"",
                           key, name, factor));
    order = std::min<std::int64_t>(order * own, 1 << 20);
    if (order > kLargestGroup)
      throw OptionError(key, fmt::format("{} = \"{}\" has more than the {} elements that are supported", key,
                                         name, kLargestGroup));
    Group next = factor[0] == 'Z' ? cyclic(n) : permutations(n, factor[0] == 'A');
    group = first ? std::move(next) : product(group, next);
  }
  if (first || name.back() == 'x')
    throw OptionError(key, fmt::format("{} = \"{}\" names no group; give for example S3", key, name));
  return group;
}

Group group_of_table(const std::string& key, const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    return OptionError(key, fmt::format("{}: {}", key, why));
  };
  Group group;
  const std::vector<std::vector<std::int64_t>> rows = number_rows(key, text);
  const auto n = static_cast<std::int64_t>(rows.size());
  if (n > kLargestGroup)
    throw refuse(fmt::format("it has more than the {} rows that are supported", kLargestGroup));
  std::vector<std::int64_t> entries;
  for (const auto& row : rows) {
    if (std::ssize(row) != n)
      throw refuse(fmt::format("it has {} rows of {} numbers; a table is square", n, row.size()));
    entries.insert(entries.end(), row.begin(), row.end());
  }
  for (const std::int64_t entry : entries)
    if (entry < 0 || entry >= n)
      throw refuse(fmt::format("{} is no element; they are 0 .. {}", entry, n - 1));
  group.order = static_cast<int>(n);
  for (const std::int64_t entry : entries) group.table.push_back(static_cast<std::int32_t>(entry));
  group.identity = -1;
  for (int e = 0; e < n && group.identity < 0; ++e) {
    bool is = true;
    for (int a = 0; a < n && is; ++a) is = group.product(e, a) == a && group.product(a, e) == a;
    if (is) group.identity = e;
  }
  if (group.identity < 0) throw refuse("no element e has e a = a e = a for every a, so it is no group");
  for (int a = 0; a < n; ++a) {
    const auto row = group.table.begin() + a * n;
    if (std::find(row, row + n, group.identity) == row + n)
      throw refuse(fmt::format("element {} has no inverse, so it is no group", a));
  }
  // Light's test with all elements: (a x) b = a (x b).
  for (int x = 0; x < n; ++x)
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        if (group.product(group.product(a, x), b) != group.product(a, group.product(x, b)))
          throw refuse(fmt::format("({} {}) {} is not {} ({} {}), so it is no group", a, x, b, a, x, b));
  for (int a = 0; a < n; ++a) group.names.push_back(a == group.identity ? "e" : fmt::format("{}", a));
  return group;
}

}  // namespace crosstalk
