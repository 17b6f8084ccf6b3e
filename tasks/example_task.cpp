// SPDX-License-Identifier: Apache-2.0
#include "tasks/example_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

/// A ridge for numbers whose rounding alone is larger.
constexpr double kNone = 1e-9;

/// Examples of a sequence as real numbers: rows of n inputs and an output.
struct Rows {
  int n = 0;
  std::vector<double> numbers;
  int count() const { return static_cast<int>(numbers.size()) / (n + 1); }
  const double* x(int row) const { return numbers.data() + static_cast<std::ptrdiff_t>(row) * (n + 1); }
  double y(int row) const { return x(row)[n]; }
};

/// Those that are shown (part 0), or asked (1).
Rows rows_of(const SequenceView& sequence, int part) {
  Rows rows{sequence.shape.C / 2 - 1, {}};
  for (int t = 0; t < sequence.shape.T; ++t) {
    const std::int32_t* from = sequence.tokens + static_cast<std::ptrdiff_t>(t) * sequence.shape.C;
    for (int i = 0; i <= rows.n; ++i) rows.numbers.push_back(kNumberUnit * from[part * (rows.n + 1) + i]);
  }
  return rows;
}

double product(const double* a, const double* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Solves A z = b for positive definite A [m,m] by Cholesky's factor, which takes the place of A; z takes that of b.
void solve(std::vector<double>& A, std::vector<double>& b) {
  const auto m = static_cast<int>(b.size());
  const auto row = [&](int i) { return A.data() + static_cast<std::ptrdiff_t>(i) * m; };
  const auto at = [&](int i) -> double& { return b[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < i; ++j) row(i)[j] = (row(i)[j] - product(row(i), row(j), j)) / row(j)[j];
    row(i)[i] = std::sqrt(row(i)[i] - product(row(i), row(i), i));
  }
  for (int i = 0; i < m; ++i) at(i) = (at(i) - product(row(i), b.data(), i)) / row(i)[i];
  for (int i = m; i-- > 0;) {
    for (int j = i + 1; j < m; ++j) at(i) -= row(j)[i] * at(j);
    at(i) /= row(i)[i];
  }
}

/// w of least |X w - y|^2 + ridge |w|^2, by whichever of n and the number of examples is smaller.
std::vector<double> ridge_regression(const Rows& shown, double ridge) {
  const int n = shown.n, N = shown.count(), m = std::min(n, N);
  const bool dual = N < n;
  std::vector<double> A(static_cast<std::size_t>(m) * static_cast<std::size_t>(m)),
      b(static_cast<std::size_t>(m)), w(static_cast<std::size_t>(n));
  for (int i = 0; i < m; ++i) {
    double* row = A.data() + static_cast<std::ptrdiff_t>(i) * m;
    double& right = b[static_cast<std::size_t>(i)];
    for (int j = 0; dual && j <= i; ++j) row[j] = product(shown.x(i), shown.x(j), n);
    for (int t = 0; !dual && t < N; ++t) {
      for (int j = 0; j <= i; ++j) row[j] += shown.x(t)[i] * shown.x(t)[j];
      right += shown.x(t)[i] * shown.y(t);
    }
    if (dual) right = shown.y(i);
    row[i] += ridge;
  }
  solve(A, b);
  if (!dual) return b;
  for (int t = 0; t < N; ++t)
    for (int i = 0; i < n; ++i)
      w[static_cast<std::size_t>(i)] += b[static_cast<std::size_t>(t)] * shown.x(t)[i];
  return w;
}

/// One pass of the delta rule with keys x / |x| and beta = 1.
std::vector<double> delta_rule(const Rows& shown) {
  std::vector<double> w(static_cast<std::size_t>(shown.n));
  for (int t = 0; t < shown.count(); ++t) {
    const double* x = shown.x(t);
    const double step =
        (shown.y(t) - product(w.data(), x, shown.n)) / std::max(product(x, x, shown.n), 1e-300);
    for (int i = 0; i < shown.n; ++i) w[static_cast<std::size_t>(i)] += step * x[i];
  }
  return w;
}

}  // namespace

std::int32_t ExampleTask::reference_answer(const SequenceView& sequence, std::int32_t key, int) const {
  return key >= 0 && key < sequence.shape.T ? 0 : -1;
}

std::string ExampleTask::to_text(const SequenceView& sequence) const {
  constexpr int kShown = 8;
  const auto row = [&](const Rows& rows, int i) {
    std::string text;
    for (int j = 0; j < std::min(rows.n, kShown); ++j) text += fmt::format(" {:+.3f}", rows.x(i)[j]);
    return text + (rows.n > kShown ? " .." : "") + fmt::format("  -> {:+.3f}\n", rows.y(i));
  };
  const Rows shown = rows_of(sequence, 0), asked = rows_of(sequence, 1);
  std::string text;
  for (int t = 0; t < shown.count(); ++t) text += fmt::format("{:>6}:", t + 1) + row(shown, t);
  for (int q = 0; q < sequence.shape.Q; ++q)
    if (sequence.target[q] >= 0)
      text += fmt::format("  read after {}:", sequence.query_position[q]) + row(asked, sequence.query[q]);
  return text;
}

std::map<std::string, double> ExampleTask::baselines() const {
  const std::int64_t all = sequences(Split::eval);
  int count = solvable_sequences(inputs_, shape(Split::eval).T);
  if (all > 0) count = static_cast<int>(std::min<std::int64_t>(count, all));
  const ExampleLosses losses = example_losses(*this, count, 0);
  return {{"chance_accuracy", 0.5},
          {"constant_loss", losses.constant},
          {"least_squares_loss", losses.least_squares},
          {"delta_rule_loss", losses.delta_rule}};
}

ExampleLosses example_losses(const Task& task, int sequences, double ridge) {
  ExampleLosses losses;
  SequenceBuffer buffer(task, Split::eval, 0, false);
  for (int s = 0; s < sequences; ++s) {
    const SequenceView sequence = buffer.draw(0, static_cast<std::uint64_t>(s));
    const int Q = sequence.shape.Q;  // beside the first Q tokens
    const Rows shown = rows_of(sequence, 0), asked = rows_of(sequence, 1);
    const auto loss = [&](const std::vector<double>& w) {
      double sum = 0;
      for (int q = 0; q < Q; ++q) sum += std::pow(product(w.data(), asked.x(q), asked.n) - asked.y(q), 2);
      return sum / (2.0 * Q * sequences);
    };
    losses.constant += loss(std::vector<double>(static_cast<std::size_t>(shown.n)));
    losses.least_squares += loss(ridge_regression(shown, kNone));
    losses.ridge += loss(ridge_regression(shown, std::max(ridge, kNone)));
    losses.delta_rule += loss(delta_rule(shown));
  }
  return losses;
}

int solvable_sequences(int inputs, int examples) {
  const double n = inputs, N = examples, work = std::min(n, N) * std::max(n, N) * std::min(n, N);
  return static_cast<int>(std::clamp(1e9 / work, 16.0, 256.0));
}

}  // namespace crosstalk
