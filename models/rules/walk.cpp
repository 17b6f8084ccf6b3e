// SPDX-License-Identifier: Apache-2.0
#include "models/rules/walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/functions.h"

namespace crosstalk::rules {
namespace {

bool is_given_leaf(Value node) {
  return node->is_leaf() && node->kind != Kind::number && node->kind != Kind::ones && node->kind != Kind::eye;
}

double function(const std::string& f, double x) {
  if (f == "exp") return std::exp(std::min(x, 80.0));
  if (f == "log") return std::log(std::max(x, 1e-30));
  if (f == "sigmoid") return sigmoid_(x);
  if (f == "softplus") return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  if (f == "log_sigmoid") return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
  if (f == "tanh") return std::tanh(x);
  if (f == "relu") return std::max(x, 0.0);
  if (f == "silu") return x * sigmoid_(x);
  if (f == "sqrt") return std::sqrt(std::max(x, 0.0));
  if (f == "abs") return std::abs(x);
  if (f == "sign") return x > 0 ? 1 : x < 0 ? -1 : 0;
  if (f == "positive") return x > 0 ? 1 : 0;
  if (f == "sin") return std::sin(x);
  return x == 0 ? 0 : 1 / x;
}

}  // namespace

Walk::Walk(const std::vector<Value>& roots, int examples, int K, int V)
    : B_(examples), K_(K), V_(V), order_(order(roots)) {
  for (Value node : order_) {
    Numbers& y = numbers_[node];
    y.assign(static_cast<std::size_t>(entries(node)) * static_cast<std::size_t>(B_), 0);
    if (node->kind == Kind::number) std::fill(y.begin(), y.end(), node->value);
    if (node->kind == Kind::ones) std::fill(y.begin(), y.end(), 1);
    const int n = size(node->shape.rows);
    for (int i = 0; i < n && node->kind == Kind::eye; ++i)
      std::fill_n(&y[static_cast<std::size_t>((i * n + i) * B_)], B_, 1);
    if (is_given_leaf(node)) leaves_.push_back(node);
  }
  std::erase_if(order_, [](Value node) { return node->is_leaf(); });
}

Walk::Numbers* Walk::leaf(Value leaf) {
  const auto it = numbers_.find(leaf);
  return it == numbers_.end() ? nullptr : &it->second;
}

void Walk::run() {
  for (Value node : order_) work(node, numbers_.at(node));
}

void Walk::work(Value node, Numbers& y) const {
  const int rows = size(node->shape.rows), columns = size(node->shape.columns);
  const auto arg = [&](std::size_t a) { return node->args.at(a); };
  // Entry i, j of an argument, of which a number has one.
  const auto at = [&](std::size_t a, int i, int j) {
    const Shape s = arg(a)->shape;
    return numbers_.at(arg(a)).data() + (s.number() ? 0 : i * size(s.columns) + j) * B_;
  };
  const auto to = [&](int i, int j) { return y.data() + (i * columns + j) * B_; };
  const auto each = [&](auto f) {  // f(i, j, numbers of the entry)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) f(i, j, to(i, j));
  };
  const auto one = [&](auto f) {
    each([&](int i, int j, double* out) {
      const double* a = at(0, i, j);
      for (int b = 0; b < B_; ++b) out[b] = f(a[b]);
    });
  };
  const auto two = [&](auto f) {
    each([&](int i, int j, double* out) {
      const double *a = at(0, i, j), *c = at(1, i, j);
      for (int b = 0; b < B_; ++b) out[b] = f(a[b], c[b]);
    });
  };
  const auto copy = [&](const double* from, double* out) { std::copy_n(from, B_, out); };
  /// Sums over all entries of the first argument.
  const auto total = [&](auto f) {
    std::vector<double> all(static_cast<std::size_t>(B_), 0);
    const double* a = at(0, 0, 0);
    for (int e = 0; e < entries(arg(0)); ++e)
      for (int b = 0; b < B_; ++b) all[static_cast<std::size_t>(b)] += f(a[e * B_ + b]);
    return all;
  };
  const auto divided = [&](const std::vector<double>& by, auto f) {
    each([&](int i, int j, double* out) {
      const double* a = at(0, i, j);
      for (int b = 0; b < B_; ++b) out[b] = f(a[b], by[static_cast<std::size_t>(b)]);
    });
  };
  switch (node->kind) {
    case Kind::add:
      return two([](double a, double b) { return a + b; });
    case Kind::sub:
      return two([](double a, double b) { return a - b; });
    case Kind::mul:
      return two([](double a, double b) { return a * b; });
    case Kind::div:
      return two([](double a, double b) { return a / b; });
    case Kind::max:
      return two([](double a, double b) { return std::max(a, b); });
    case Kind::min:
      return two([](double a, double b) { return std::min(a, b); });
    case Kind::neg:
      return one([](double a) { return -a; });
    case Kind::map:
      return one([&](double a) { return function(node->name, a); });
    case Kind::matmul:
      return each([&](int i, int j, double* out) {
        std::fill_n(out, B_, 0);
        for (int l = 0; l < size(arg(0)->shape.columns); ++l) {
          const double *a = at(0, i, l), *c = at(1, l, j);
          for (int b = 0; b < B_; ++b) out[b] += a[b] * c[b];
        }
      });
    case Kind::transpose:
      return each([&](int i, int j, double* out) { copy(at(0, j, i), out); });
    case Kind::columns:
    case Kind::rows:
      return each([&](int i, int j, double* out) {
        const double *a = at(0, i, j), *c = at(1, node->kind == Kind::rows ? i : j, 0);
        for (int b = 0; b < B_; ++b) out[b] = a[b] * c[b];
      });
    case Kind::diag:
      for (int i = 0; i < rows; ++i) copy(at(0, i, 0), to(i, i));
      return;
    case Kind::diagonal:
      return each([&](int i, int, double* out) { copy(at(0, i, i), out); });
    case Kind::sum: {
      const std::vector<double> all = total([](double a) { return a; });
      return copy(all.data(), y.data());
    }
    case Kind::fill:
      return each([&](int, int, double* out) { copy(at(0, 0, 0), out); });
    case Kind::fit:
      return each([&](int i, int, double* out) {
        if (i < size(arg(0)->shape.rows)) copy(at(0, i, 0), out);
      });
    case Kind::row_sums:
      return each([&](int i, int, double* out) {
        std::fill_n(out, B_, 0);
        for (int l = 0; l < size(arg(0)->shape.columns); ++l)
          for (int b = 0; b < B_; ++b) out[b] += at(0, i, l)[b];
      });
    case Kind::softmax:
      return divided(total([](double a) { return std::exp(a); }),
                     [](double a, double s) { return std::exp(a) / s; });
    case Kind::unit:
      return divided(total([](double a) { return a * a; }),
                     [](double a, double s) { return a / std::sqrt(s + 1e-6); });
    case Kind::largest:
      return each([&](int i, int, double* out) {
        for (int b = 0; b < B_; ++b) {
          int before = 0;
          for (int l = 0; l < rows; ++l)
            before += at(0, l, 0)[b] > at(0, i, 0)[b] || (l < i && at(0, l, 0)[b] == at(0, i, 0)[b]);
          out[b] = before < node->value ? at(0, i, 0)[b] : 0;
        }
      });
    case Kind::solve:  // by elimination; A is symmetric and positive definite, so no rows are exchanged
      for (int b = 0; b < B_; ++b) {
        std::vector<std::vector<double>> a;
        for (int i = 0; i < rows; ++i) {
          a.emplace_back();
          for (int j = 0; j < rows; ++j) a.back().push_back(at(0, i, j)[b]);
          a.back().push_back(at(1, i, 0)[b]);
        }
        for (std::size_t p = 0; p < a.size(); ++p)
          for (std::size_t i = 0; i < a.size(); ++i) {
            const double f = i == p ? 0 : a[i][p] / a[p][p];
            for (std::size_t j = p; j < a[i].size() && i != p; ++j) a[i][j] -= f * a[p][j];
          }
        for (int i = 0; i < rows; ++i) {
          const auto row = static_cast<std::size_t>(i);
          to(i, 0)[b] = a[row].back() / a[row][row];
        }
      }
      return;
    default:
      return;  // leaves
  }
}

Value read_of_token(Law& law) {
  std::map<Value, Value> made;
  for (const LawState& one : law.states) made[law.graph.leaf(Kind::state, one.name, one.shape)] = one.step;
  return law.before ? law.read : law.graph.replaced(law.read, std::move(made));
}

}  // namespace crosstalk::rules
