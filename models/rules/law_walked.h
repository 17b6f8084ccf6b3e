// Walks nodes of a law's graph operation by operation, in double: the oracle of programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/rules/graph.h"

namespace crosstalk::rules {

inline constexpr int kKeys = 4, kValues = 3;

inline int size_of(int letter) { return sized(letter, kKeys, kValues); }

struct Block {
  int rows = 1, columns = 1;
  std::vector<double> x;
  explicit Block(Shape s, double fill = 0)
      : rows(size_of(s.rows)),
        columns(size_of(s.columns)),
        x(static_cast<std::size_t>(rows * columns), fill) {}
  double& at(int i, int j) { return x[static_cast<std::size_t>(i * columns + j)]; }
  double get(int i, int j) const {  // a number is repeated
    return x.size() == 1 ? x[0] : x[static_cast<std::size_t>(i * columns + j)];
  }
};
using Leaves = std::map<std::string, Block>;

inline double function(const std::string& f, double x) {
  if (f == "exp") return std::exp(std::min(x, 80.0));
  if (f == "log") return std::log(std::max(x, 1e-30));
  if (f == "sigmoid") return 1 / (1 + std::exp(-x));
  if (f == "softplus") return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  if (f == "log_sigmoid") return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
  if (f == "tanh") return std::tanh(x);
  if (f == "relu") return std::max(x, 0.0);
  if (f == "silu") return x / (1 + std::exp(-x));
  if (f == "sqrt") return std::sqrt(x);
  if (f == "abs") return std::abs(x);
  if (f == "sign") return x > 0 ? 1 : x < 0 ? -1 : 0;
  if (f == "positive") return x > 0 ? 1 : 0;
  if (f == "sin") return std::sin(x);
  return x == 0 ? 0 : 1 / x;
}

inline Block walked(Value root, const Leaves& leaves) {
  std::map<Value, Block> done;
  for (Value node : order({root})) {
    Block y(node->shape);
    const auto arg = [&](std::size_t i) -> const Block& { return done.at(node->args[i]); };
    const auto each = [&](auto f) {
      for (int i = 0; i < y.rows; ++i) {
        for (int j = 0; j < y.columns; ++j) y.at(i, j) = f(i, j);
      }
    };
    double total = 0;
    switch (node->kind) {
      case Kind::number:
        each([&](int, int) { return node->value; });
        break;
      case Kind::ones:
        each([&](int, int) { return 1.0; });
        break;
      case Kind::eye:
        each([&](int i, int j) { return i == j ? 1.0 : 0.0; });
        break;
      case Kind::add:
        each([&](int i, int j) { return arg(0).get(i, j) + arg(1).get(i, j); });
        break;
      case Kind::sub:
        each([&](int i, int j) { return arg(0).get(i, j) - arg(1).get(i, j); });
        break;
      case Kind::mul:
        each([&](int i, int j) { return arg(0).get(i, j) * arg(1).get(i, j); });
        break;
      case Kind::div:
        each([&](int i, int j) { return arg(0).get(i, j) / arg(1).get(i, j); });
        break;
      case Kind::max:
        each([&](int i, int j) { return std::max(arg(0).get(i, j), arg(1).get(i, j)); });
        break;
      case Kind::min:
        each([&](int i, int j) { return std::min(arg(0).get(i, j), arg(1).get(i, j)); });
        break;
      case Kind::neg:
        each([&](int i, int j) { return -arg(0).get(i, j); });
        break;
      case Kind::map:
        each([&](int i, int j) { return function(node->name, arg(0).get(i, j)); });
        break;
      case Kind::matmul:
        each([&](int i, int j) {
          double sum = 0;
          for (int l = 0; l < arg(0).columns; ++l) sum += arg(0).get(i, l) * arg(1).get(l, j);
          return sum;
        });
        break;
      case Kind::transpose:
        each([&](int i, int j) { return arg(0).get(j, i); });
        break;
      case Kind::columns:
        each([&](int i, int j) { return arg(0).get(i, j) * arg(1).get(j, 0); });
        break;
      case Kind::rows:
        each([&](int i, int j) { return arg(0).get(i, j) * arg(1).get(i, 0); });
        break;
      case Kind::diag:
        each([&](int i, int j) { return i == j ? arg(0).get(i, 0) : 0.0; });
        break;
      case Kind::diagonal:
        each([&](int i, int) { return arg(0).get(i, i); });
        break;
      case Kind::sum:
        for (double e : arg(0).x) y.x[0] += e;
        break;
      case Kind::fill:
        each([&](int, int) { return arg(0).x[0]; });
        break;
      case Kind::row_sums:
        each([&](int i, int) {
          double sum = 0;
          for (int j = 0; j < arg(0).columns; ++j) sum += arg(0).get(i, j);
          return sum;
        });
        break;
      case Kind::softmax:
        for (double e : arg(0).x) total += std::exp(e);
        each([&](int i, int j) { return std::exp(arg(0).get(i, j)) / total; });
        break;
      case Kind::largest:
        each([&](int i, int) {
          const double x = arg(0).get(i, 0);
          return std::count_if(arg(0).x.begin(), arg(0).x.end(), [&](double e) { return e > x; }) <
                         node->value
                     ? x
                     : 0;
        });
        break;
      case Kind::unit:
        for (double e : arg(0).x) total += e * e;
        each([&](int i, int j) { return arg(0).get(i, j) / std::sqrt(total + 1e-6); });
        break;
      default:
        y = leaves.at(node->name);
    }
    done.emplace(node, y);
  }
  return done.at(root);
}

}  // namespace crosstalk::rules
