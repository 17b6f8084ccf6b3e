// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/lookup.h"

#include "kernels/base/buffer.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

/// Table i has rows[i] rows and is read with channel[i].
OpCase make(const std::string& name, int N, int C, int D, std::vector<int> rows, std::vector<int> channel,
            bool bias) {
  OpCase op(name);
  const int tables = static_cast<int>(rows.size());
  const int most = *std::min_element(rows.begin(), rows.end());
  op.integers("ids", {N, C}, integer_in(-1, most - 1));
  for (int i = 0; i < tables; ++i)
    op.input(fmt::format("table{}", i), {rows[static_cast<std::size_t>(i)], D}, normal());
  if (bias) {
    op.input("bias", {D}, normal());
  } else {
    op.absent("bias");
  }
  op.output("y", {N, D});
  call<Lookup>(op, [=](auto& o) {
    o.tables = tables;
    for (int i = 0; i < tables; ++i) o.channel[i] = channel[static_cast<std::size_t>(i)];
  });
  op.oracle([=](const Values& in) {  // products with dense one-hot rows
    Values out;
    for (int n = 0; n < N; ++n) {
      for (int j = 0; j < D; ++j) {
        long double y = bias ? in["bias"][static_cast<std::size_t>(j)] : 0.0;
        for (int i = 0; i < tables; ++i) {
          const int id =
              in.integer.at("ids")[static_cast<std::size_t>(n * C + channel[static_cast<std::size_t>(i)])];
          for (int row = 0; row < rows[static_cast<std::size_t>(i)]; ++row)
            y += (row == id ? 1.0L : 0.0L) *
                 in[fmt::format("table{}", i)][static_cast<std::size_t>(row * D + j)];
        }
        out.real["y"].push_back(static_cast<double>(y));
      }
    }
    return out;
  });
  return op.roundings(N + tables).gradient_elements(300);
}

std::vector<OpCase> cases() {
  return {make("OneTable", 9, 2, 5, {4}, {0}, true),
          make("SecondChannel", 9, 2, 5, {4}, {1}, false),
          make("KeyAndValue", 11, 2, 7, {5, 3}, {0, 1}, true),
          make("ThreeChannels", 13, 3, 6, {5, 4, 5}, {0, 1, 2}, false),
          make("SharedChannel", 8, 3, 4, {5, 6, 4}, {2, 0, 2}, true),
          make("OneRow", 1, 3, 4, {3, 3, 3}, {0, 1, 2}, true),
          make("RowsNeverRead", 4, 2, 3, {40, 3}, {0, 1}, true),
          make("Many", 150, 2, 35, {21, 33}, {0, 1}, true)};
}

/// A row of the bias for each position: the table, then the bias, as learned positions have it.
OpCase with_positions(const std::string& name, int B, int T, int longest, int D) {
  OpCase op(name);
  op.integers("ids", {B, T, 1}, integer_in(-1, 4)).input("table0", {5, D}, normal());
  op.input("bias", {longest, D}, normal()).output("y", {B, T, D});
  call<Lookup>(op, [](auto& o) { o.tables = 1; });
  op.oracle([=](const Values& in) {
    Values out;
    for (int n = 0; n < B * T; ++n) {
      const int id = in.integer.at("ids")[static_cast<std::size_t>(n)];
      for (int j = 0; j < D; ++j)
        out.real["y"].push_back((id < 0 ? 0.0 : in["table0"][static_cast<std::size_t>(id * D + j)]) +
                                in["bias"][static_cast<std::size_t>(n % T * D + j)]);
    }
    return out;
  });
  return op.roundings(B + 1).gradient_elements(100);
}

std::vector<OpCase> positions() {
  return {with_positions("One", 1, 1, 1, 1), with_positions("Whole", 3, 4, 4, 8),
          with_positions("Shorter", 3, 4, 7, 5), with_positions("Many", 70, 5, 6, 32)};
}

INSTANTIATE_TEST_SUITE_P(LookupPositions, OpCheck, ::testing::ValuesIn(positions()), case_name);
INSTANTIATE_TEST_SUITE_P(Lookup, OpCheck, ::testing::ValuesIn(cases()), case_name);

// Each id's places in growing order, absent ids in no list.
TEST(BucketIds, ListsPlacesInOrder) {
  std::vector<std::int32_t> ids = {9, 2, 9, 0, 9, -1, 9, 2, 9, 2, 9, 0}, order(6, -7), start(5, -7);
  BucketIds<float> args;
  args.ids = shaped<std::int32_t>(1, {6, 2});
  args.ids.data = ids.data();
  args.channel = 1;
  args.order = shaped<std::int32_t>(1, {6});
  args.order.data = order.data();
  args.start = shaped<std::int32_t>(1, {5});
  args.start.data = start.data();
  run(Exec{}, args);
  EXPECT_EQ(start, (std::vector<std::int32_t>{0, 2, 2, 5, 5}));
  EXPECT_EQ(std::vector<std::int32_t>(order.begin(), order.begin() + 5),
            (std::vector<std::int32_t>{1, 5, 0, 3, 4}));
}

}  // namespace
}  // namespace crosstalk::checks
