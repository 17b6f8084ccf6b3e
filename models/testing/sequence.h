// Input and output of an oracle of a memory: one sequence of one head in double, token after token.
//
// An oracle is the law of the memory worked out number by number (law_oracle.cpp), or what its test file registers, as plainly as C++
// allows, with an explicit state. It knows nothing of engines, models or forms. Memories without either are held by golden_test.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/text/options.h"

namespace crosstalk::checks {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  ///< rows

/// Facts of a recurrence for a test beside its reads.
struct Witness {
  std::int64_t floats = 0;  ///< of the state at the end
};

/// One sequence of one head. Rows are tokens (with several writes a token, k, v and what belongs to a write
/// have a row a write); q and k are what the feature map and the key normalisation gave.
struct Sequence {
  int T = 0, K = 0, V = 0;
  const Options& options;  ///< keys "memory.NAME"
  Matrix q = {}, k = {}, v = {};
  std::map<std::string, Matrix> in =
      {};  ///< gates as the equations use them: a row a token, or one row for the head
  Witness* witness = nullptr;

  bool has(const std::string& name) const { return in.count(name) != 0; }
  const Matrix& input(const std::string& name) const {
    const auto found = in.find(name);
    if (found == in.end()) throw std::logic_error("the oracle needs the input `" + name + "`");
    return found->second;
  }
  /// Row t of an input, or its only row where it belongs to the head.
  const Vector& row(const std::string& name, int t) const {
    const Matrix& rows = input(name);
    return rows.size() == 1 ? rows.front() : rows.at(static_cast<std::size_t>(t));
  }
  double number(const std::string& name, int t = 0) const { return row(name, t).at(0); }
  const Vector& key(int t) const { return k.at(static_cast<std::size_t>(t)); }
  const Vector& value(int t) const { return v.at(static_cast<std::size_t>(t)); }
  /// Row t of q times the option `scale`.
  Vector query(int t) const;

  /// Options by their name without prefix; `otherwise` where a study (or `apply`) did not say.
  bool given(const std::string& option) const { return options.has("memory." + option); }
  std::string text(const std::string& option, const std::string& otherwise = "") const {
    return given(option) ? options.get_string("memory." + option) : otherwise;
  }
  int integer(const std::string& option, int otherwise = 0) const {
    return given(option) ? static_cast<int>(options.get_int("memory." + option)) : otherwise;
  }
  double real(const std::string& option, double otherwise = 0) const {
    return given(option) ? options.get_double("memory." + option) : otherwise;
  }
  bool flag(const std::string& option) const { return given(option) && options.get_bool("memory." + option); }
};

/// The read at every token [T][V].
using Oracle = std::function<Matrix(const Sequence&)>;

inline std::map<std::string, Oracle>& oracles() {
  static std::map<std::string, Oracle> all;
  return all;
}
/// The oracle that a memory's law is; set by law_oracle.cpp, in test programs that have it.
inline Oracle (*&law_oracle())(const std::string& memory) {
  static Oracle (*of)(const std::string&) = nullptr;
  return of;
}
/// The oracle of a memory; null if it has neither.
inline Oracle find_oracle(const std::string& memory) {
  const auto found = oracles().find(memory);
  return found != oracles().end() ? found->second : law_oracle() ? law_oracle()(memory) : nullptr;
}
inline bool register_oracle(const std::string& memory, Oracle oracle) {
  if (!oracles().emplace(memory, oracle).second)
    throw std::logic_error("two oracles are called `" + memory + "`");
  return true;
}
#define CROSSTALK_MEMORY_ORACLE(name, function) \
  [[maybe_unused]] const bool oracle_of_##name = ::crosstalk::checks::register_oracle(#name, function)

inline Matrix zeros(int rows, int columns) {
  return Matrix(static_cast<std::size_t>(rows), Vector(static_cast<std::size_t>(columns), 0));
}
inline double dot(const Vector& a, const Vector& b) {
  if (a.size() != b.size()) throw std::logic_error("dot: sizes differ");
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
inline Vector scaled(double factor, Vector x) {
  for (double& e : x) e *= factor;
  return x;
}
/// a + factor b
inline Vector plus(Vector a, double factor, const Vector& b) {
  if (a.size() != b.size()) throw std::logic_error("plus: sizes differ");
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}
inline Vector minus(const Vector& a, const Vector& b) { return plus(a, -1, b); }
inline Vector elementwise(Vector a, const Vector& b) {
  if (a.size() != b.size()) throw std::logic_error("elementwise: sizes differ");
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}
/// e^x, element by element: a gate from its logarithm.
inline Vector exponential(Vector x) {
  for (double& e : x) e = std::exp(e);
  return x;
}
/// S x
inline Vector times(const Matrix& s, const Vector& x) {
  Vector y;
  for (const Vector& row : s) y.push_back(dot(row, x));
  return y;
}
/// factor S
inline Matrix times(double factor, Matrix s) {
  for (Vector& row : s) row = scaled(factor, std::move(row));
  return s;
}
/// S + factor v k^T
inline Matrix plus_outer(Matrix s, double factor, const Vector& v, const Vector& k) {
  if (s.size() != v.size()) throw std::logic_error("plus_outer: sizes differ");
  for (std::size_t i = 0; i < v.size(); ++i) s[i] = plus(std::move(s[i]), factor * v[i], k);
  return s;
}

inline Vector Sequence::query(int t) const {
  return scaled(real("scale", 1), q.at(static_cast<std::size_t>(t)));
}

/// Average of the values of tokens first, first + 1, ... by the softmax of `logits`; 0 if there are none.
inline Vector softmax_average(const Vector& logits, const Matrix& v, int first, int V) {
  Vector sum(static_cast<std::size_t>(V), 0);
  if (logits.empty()) return sum;
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    const double weight = std::exp(logits[j] - top);
    total += weight;
    sum = plus(std::move(sum), weight, v.at(static_cast<std::size_t>(first) + j));
  }
  return scaled(1 / total, std::move(sum));
}

/// Schlag et al. 2021 divide reads by z.q + eps, z the sum of keys: option `denominator`, or
/// read_norm = attention.
inline bool divides_reads(const Sequence& s) {
  return s.flag("denominator") || s.text("read_norm") == "attention";
}
inline double read_eps(const Sequence& s) {
  return s.real("eps", s.text("read_norm") == "attention" ? 1e-6 : 0);
}
inline Vector layer_norm(Vector x) {
  double mean = 0, variance = 0;
  for (double e : x) mean += e / static_cast<double>(x.size());
  for (double e : x) variance += (e - mean) * (e - mean) / static_cast<double>(x.size());
  for (double& e : x) e = (e - mean) / std::sqrt(variance + 1e-5);
  return x;
}

}  // namespace crosstalk::checks
