// The hard cases are what they say, and every oracle survives them.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/hard_cases.h"

#include "models/apply_model.h"
#include "models/memory.h"
#include "models/testing/random_sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::hard_cases_test {

constexpr int kTokens = 24, kKeys = 6, kValues = 5;

// Columns of a row of an input that belongs to a head: the product of the sizes that its shape has besides H.
int columns_of(const Memory& memory, const MemoryInput& input) {
  const ApplySizes sizes = with_letters(memory, {.K = kKeys, .V = kValues}, {});
  for (const ApplyInput& one : apply_inputs(memory, sizes)) {
    if (one.name != input.name) continue;
    int columns = 1;
    for (const int n : one.dims) columns *= n;
    return columns;
  }
  return 1;
}

// Random numbers in the ranges that the memory declares.
Sequence ordinary(const std::string& name, const Options& options) {
  const Memory& memory = *find_memory(name);
  const int writes = has_option(memory, "writes") ? 3 : 1;
  Sequence s = random_sequence(options, kTokens, kKeys, kValues, 1, writes);
  to_unit_length(s.k);
  std::uint64_t seed = 2;
  for (const MemoryInput& input : memory.inputs) {
    if (input.optional && input.per == Per::other) continue;  // what a state is before the first token
    const bool head = input.per == Per::head || input.per == Per::head_key || input.per == Per::other;
    const Range range = input.range.given() ? input.range : Range{0.1, 1};
    Matrix rows = uniform_rows(head                      ? 1
                               : input.per == Per::write ? kTokens * writes
                                                         : kTokens,
                               columns_of(memory, input), range.low, range.high, ++seed);
    s.in[input.name] = input.unit ? unit_rows(rows) : rows;
  }
  return s;
}

TEST(HardCases, EveryOracleStaysFinite) {
  const Options options = option("window", 7);
  for (const Memory& memory : all_memories()) {
    if (find_oracle(memory.name) == nullptr) continue;
    for (const HardCase& hard : hard_cases()) {
      Sequence s = ordinary(memory.name, options);
      hard.change(s);
      for (const Vector& o : find_oracle(memory.name)(s))
        for (const double e : o) ASSERT_TRUE(std::isfinite(e)) << memory.name << ", " << hard.name;
    }
  }
}

TEST(HardCases, ChangeWhatTheyName) {
  const Options none;
  const auto changed = [&](const char* memory, void (*change)(Sequence&)) {
    Sequence s = ordinary(memory, none);
    change(s);
    return s;
  };
  const Sequence parallel = changed("delta", parallel_reflections);
  EXPECT_NEAR(dot(parallel.k[3], parallel.k[3]), 1, 1e-12);
  double cosine = 0;
  for (int t = 2; t < kTokens; ++t) cosine += dot(parallel.key(t), parallel.key(t - 1)) / (kTokens - 2);
  EXPECT_NEAR(cosine, 0.9, 0.05);
  EXPECT_EQ(parallel.number("beta", 5), 2);
  EXPECT_EQ(changed("delta", identical_keys).k[7], changed("delta", identical_keys).k[0]);
  EXPECT_EQ(changed("kda", resets).row("log_decay", 5), Vector(kKeys, -60));
  EXPECT_EQ(changed("kda", mixed_channels).row("log_decay", 1), (Vector{-20, -1, -60, 0, -20, -1}));
  EXPECT_EQ(changed("delta_product", zero_keys).k[3], Vector(kKeys, 0));
  EXPECT_GT(std::abs(dot(changed("softmax", huge_logits).q[0], changed("softmax", huge_logits).k[0])), 100);
  Sequence bare = random_sequence(none, 3, 2, 2, 1);
  for (const HardCase& hard : hard_cases()) hard.change(bare);
  EXPECT_TRUE(bare.in.empty());  // no gate appears
}

// With one key and beta 1 only the last value can be read: what must hold whatever the arithmetic.
TEST(HardCases, IdenticalKeysLeaveTheLastValue) {
  const Options none;
  Sequence s = ordinary("delta", none);
  identical_keys(s);
  s.q = s.k;
  expect_close(read("delta", s), s.v);
}

// Beta 2 with one key: S_t k = 2 v_t - S_{t-1} k.
TEST(HardCases, IdenticalReflectionsAlternate) {
  const Options none;
  Sequence s = ordinary("delta", none);
  identical_reflections(s);
  s.q = s.k;
  const Matrix o = read("delta", s);
  for (std::size_t t = 1; t < o.size(); ++t) expect_close(o[t], minus(scaled(2, s.v[t]), o[t - 1]));
}

}  // namespace crosstalk::checks::hard_cases_test
