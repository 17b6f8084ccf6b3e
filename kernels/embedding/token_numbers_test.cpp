// Real numbers of tokens against channels picked one by one.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/token_numbers.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::token_numbers_test {
namespace {

OpCase make(const std::string& name, int B, int T, int C, int rows, int first, int count) {
  OpCase op(name);
  op.integers("ids", {B, T, C}, integer_in(-9'000'000, 9'000'000));
  op.output_without_gradient("y", {B, rows, count});
  call<TokenNumbers>(
      op, [=](auto& o) { o.first = first, o.count = count, o.rows = rows, o.unit = 1.0 / (1 << 20); });
  op.backward(nullptr);
  op.oracle([=](const Values& in, Values& out) {
    for (int b = 0; b < B; ++b)
      for (int t = 0; t < rows; ++t)
        for (int c = first; c < first + count; ++c)
          out.real["y"].push_back(in.integer.at("ids")[(b * T + t) * C + c] / 1048576.0L);
  });
  return op;
}

INSTANTIATE_TEST_SUITE_P(TokenNumbers, OpCheck,
                         ::testing::Values(make("All", 3, 5, 4, 5, 0, 4), make("Inputs", 2, 7, 12, 7, 0, 5),
                                           make("Outputs", 2, 7, 12, 7, 5, 1),
                                           make("OfFewTokens", 3, 9, 8, 4, 4, 3),
                                           make("Many", 33, 65, 34, 65, 1, 32)),
                         case_name);

TEST(TokenNumbersOp, RefusesWhatTokensDoNotHold) {
  TokenNumbers<double> op;
  op.ids.value = shaped<std::int32_t>(1, {2, 3, 4});
  op.first = 3, op.count = 2, op.rows = 3;
  EXPECT_THROW(op.plan(), std::logic_error);
  op.first = 2, op.rows = 4;
  EXPECT_THROW(op.plan(), std::logic_error);
  op.rows = 3;
  EXPECT_NO_THROW(op.plan());
}

}  // namespace
}  // namespace crosstalk::checks::token_numbers_test
