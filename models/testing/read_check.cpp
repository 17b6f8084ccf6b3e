// Holds a memory, as `crosstalk apply` runs it, against a sequence of a test: what tests say of an oracle is then said of
// the memory too.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "kernels/base/error.h"
#include "models/apply_model.h"
#include "models/model.h"
#include "models/testing/random_sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {
namespace {

// Laws of gates are followed in models only: one of every memory is built.
void expect_models(const Memory& kind) {
  static std::set<std::string> built;
  if (!built.insert(kind.name).second) return;
  try {
    const Options options = resolved(kind, memory_options(kind, 4, 3, 3));
    make_model<double>(options, {3, 3, false}, Device::cpu, 1)->graph(2, {3, 2, 2}, true);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

// Rows as a tensor holds them: one row of a head, or of many tokens, is repeated where there is a row a token.
std::vector<double> numbers_of(const Matrix& rows, std::size_t size) {
  std::vector<double> x;
  for (const Vector& row : rows) x.insert(x.end(), row.begin(), row.end());
  if (rows.size() == 1 && !x.empty())
    while (x.size() < size) x.insert(x.end(), rows[0].begin(), rows[0].end());
  return x;
}

}  // namespace

Matrix memory_reads(const std::string& memory, const Sequence& s) {
  const Memory& kind = *find_memory(memory);
  expect_models(kind);
  ApplySizes sizes{.B = 1, .T = s.T, .H = 1, .K = s.K, .V = s.V};
  if (has_option(kind, "writes")) sizes.N = static_cast<int>(s.v.size()) / s.T;
  // Keys are given as the feature map and the norm made them.
  std::map<std::string, OptionValue> given;
  for (const auto& [key, value] : s.options.values()) {
    const std::string name = key.substr(key.find('.') + 1);
    if (key.rfind("memory.", 0) == 0 && name != "feature_map" && name != "key_norm") given[name] = value;
  }
  sizes = with_letters(kind, sizes, given);
  const auto rows_of = [&](const std::string& name) {
    return name == "q" ? s.q : name == "k" ? s.k : name == "v" ? s.v : s.has(name) ? s.input(name) : Matrix();
  };
  std::vector<std::string> present;
  for (const ApplyInput& input : apply_inputs(kind, sizes))
    if (input.optional && s.has(input.name)) present.push_back(input.name);
  Options options;
  try {
    options = apply_options(kind, sizes, given);
  } catch (const OptionError&) {
    return {};  // in models only
  }
  ApplyModel<double> model(kind, options, sizes, present, Device::cpu, false);
  for (const ApplyInput& input : apply_inputs(kind, sizes)) {
    if (input.optional && !s.has(input.name)) continue;
    const Tensor<double> x = model.input(input.name);
    const std::vector<double> numbers = numbers_of(rows_of(input.name), static_cast<std::size_t>(x.size()));
    EXPECT_EQ(static_cast<std::int64_t>(numbers.size()), x.size())
        << "memory " << memory << ", input " << input.name;
    if (static_cast<std::int64_t>(numbers.size()) != x.size()) return {};
    std::copy(numbers.begin(), numbers.end(), x.at(0));
  }
  model.graph().forward({});
  const Tensor<double> o = model.output();
  Matrix read;
  for (std::int64_t i = 0; i < o.size(); i += s.V) read.emplace_back(o.at(0) + i, o.at(0) + i + s.V);
  return read;
}

void expect_memory_reads(const std::string& memory, const Sequence& s, const Matrix& want) {
  const Matrix got = memory_reads(memory, s);
  double largest = 1;
  for (const Vector& row : want)
    for (const double e : row) largest = std::max(largest, std::abs(e));
  for (std::size_t t = 0; t < got.size(); ++t)
    for (std::size_t i = 0; i < want[t].size(); ++i) {
      if (std::abs(got[t][i] - want[t][i]) <= 1e-11 * largest) continue;
      ADD_FAILURE() << "memory " << memory << " reads " << got[t][i] << " at token " << t << ", value " << i
                    << ", its oracle " << want[t][i];
      return;
    }
}

}  // namespace crosstalk::checks
