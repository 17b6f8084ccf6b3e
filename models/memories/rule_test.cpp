// A memory whose law is text: its default is the delta rule, with a rate before its sigmoid.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rule_test {

TEST(RuleOracle, ByDefaultIsTheDeltaRule) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["beta"] = constant_rows(6, 1, std::log(0.25 / 0.75));
  const Matrix o = read("rule", s);
  s.in["beta"] = constant_rows(6, 1, 0.25);
  expect_close(o, read("delta", s));
}

}  // namespace crosstalk::checks::rule_test
