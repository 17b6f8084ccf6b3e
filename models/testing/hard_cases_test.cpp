// The hard cases are what they say, and every oracle survives them.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/hard_cases.h"

#include "models/memory.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks {
namespace {

constexpr int kTokens = 24, kKeys = 6, kValues = 5;

// Gates are numbers, or have a channel, by what a memory takes.
Sequence ordinary(const std::string& memory, const Options& options) {
  const int writes = memory == "delta_product" ? 3 : 1;
  Sequence s = random_sequence(options, kTokens, kKeys, kValues, 1, writes);
  to_unit_length(s.k);
  const bool channels = memory != "fox" && memory != "mamba2" && memory != "gated_delta" &&
                        memory != "comba" && memory != "delta_product" && memory != "mlstm";
  s.in["log_decay"] = uniform_rows(memory == "retnet" ? 1 : kTokens, channels ? kKeys : 1, -1, 0, 2);
  s.in["log_decay_v"] = uniform_rows(kTokens, kValues, -1, 0, 3);
  s.in["beta"] = uniform_rows(kTokens * writes, 1, 0, 1, 4);
  s.in["erase_key"] = unit_rows(normal_rows(kTokens, kKeys, 5));
  s.in["in_context_rate"] = s.in["erase_gate"] = uniform_rows(kTokens, kKeys, 0, 1, 6);
  s.in["write_gate"] = uniform_rows(kTokens, kValues, 0, 1, 7);
  s.in["a"] = times(-1, s.in["erase_key"]), s.in["b"] = times(0.5, s.in["erase_key"]);
  s.in["step"] = s.in["log_input"] = uniform_rows(kTokens, 1, 0.1, 1, 8);
  s.in["slope"] = {{0.25}}, s.in["bonus"] = constant_rows(1, kKeys, 0.5);
  const MemoryKind* kind = find_memory(memory);
  for (const MemoryInput& input :
       kind ? kind->inputs : std::vector<MemoryInput>{}) {  // those of later memories
    if (input.per == Per::other) {                          // of a head: one row
      int columns = 1;
      for (const char c : input.shape)
        columns *= c == 'K' ? kKeys : c == 'V' ? kValues : c == 'M' ? 4 * kKeys : c == 'L' ? 16 : 1;
      if (!input.optional) s.in[input.name] = uniform_rows(1, columns, 0.1, 1, 9);
      continue;
    }
    const bool head = input.per == Per::head || input.per == Per::head_key;
    const int columns = input.per == Per::key || input.per == Per::head_key ? kKeys
                        : input.per == Per::value                           ? kValues
                                                                            : 1;
    const int rows = head ? 1 : input.per == Per::write ? kTokens * writes : kTokens;
    if (!s.has(input.name) || s.in[input.name].front().size() != static_cast<std::size_t>(columns))
      s.in[input.name] = uniform_rows(rows, columns, 0.1, 1, 9);
  }
  return s;
}

TEST(HardCases, EveryOracleStaysFinite) {
  const Options options = option("window", std::int64_t{7});
  ASSERT_FALSE(oracles().empty());
  for (const auto& [memory, oracle] : oracles())
    for (const HardCase& hard : hard_cases()) {
      Sequence s = ordinary(memory, options);
      hard.change(s);
      for (const Vector& o : oracle(s))
        for (const double e : o) ASSERT_TRUE(std::isfinite(e)) << memory << ", " << hard.name;
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

}  // namespace
}  // namespace crosstalk::checks
