// Rows of tables against products with one-hot rows, and lists of where each id stands.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/lookup.h"

#include "kernels/base/buffer.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::lookup_test {
namespace {

/// Lists of where each id of channel[i] stands, for table i with rows[i] rows; forward makes them.
struct Lists {
  std::vector<int> rows, channel;

  void add(OpCase& op, int N) const {
    for (std::size_t i = 0; i < rows.size(); ++i)
      op.integer_output(fmt::format("order{}", i), {N})
          .integer_output(fmt::format("start{}", i), {rows[i] + 1});
  }
  template <class Real>
  void make(const Exec& exec, const TensorSet<Real>& s) const {
    for (std::size_t i = 0; i < rows.size(); ++i)
      run(exec, BucketIds<Real>{s.integer("ids"), channel[i], 1, s.integer(fmt::format("order{}", i)),
                                s.integer(fmt::format("start{}", i))});
  }
  void oracle(const Integers& ids, int C, Values& out) const {
    const int N = static_cast<int>(ids.size()) / C;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Integers &order = out.integer[fmt::format("order{}", i)],
               &start = out.integer[fmt::format("start{}", i)];
      for (int row = 0; row < rows[i]; ++row) {
        start.push_back(static_cast<int>(order.size()));
        for (int n = 0; n < N; ++n)
          if (ids[n * C + channel[i]] == row) order.push_back(n);
      }
      start.push_back(static_cast<int>(order.size()));
      order.resize(static_cast<std::size_t>(N), -1);  // absent ids leave the end as it was: poisoned
    }
  }
};

/// Table i has rows[i] rows and is read with channel[i].
OpCase make(const std::string& name, int N, int C, int D, std::vector<int> rows, std::vector<int> channel,
            bool bias, const Fill& ids = {}) {
  OpCase op(name);
  const int tables = static_cast<int>(rows.size());
  const int most = *std::min_element(rows.begin(), rows.end());
  op.integers("ids", {N, C}, ids ? ids : integer_in(-1, most - 1));
  for (int i = 0; i < tables; ++i) op.input(fmt::format("table{}", i), {rows[i], D}, normal());
  op.optional(bias, "bias", {D}, normal());
  op.output("y", {N, D});
  const Lists lists{rows, channel};
  lists.add(op, N);
  const auto configure = [=](auto& o) {
    o.tables = tables;
    for (int i = 0; i < tables; ++i) o.channel[i] = channel[i];
  };
  call<Lookup>(op, configure);
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
    lists.make(exec, s);
    forward(exec, bound<Lookup, Real>(s, configure));
  });
  op.oracle([=](const Values& in, Values& out) {  // products with dense one-hot rows
    lists.oracle(in.integer.at("ids"), C, out);
    for (int n = 0; n < N; ++n) {
      for (int j = 0; j < D; ++j) {
        long double y = bias ? in["bias"][j] : 0.0;
        for (int i = 0; i < tables; ++i) {
          const int id = in.integer.at("ids")[n * C + channel[static_cast<std::size_t>(i)]];
          for (int row = 0; row < rows[i]; ++row)
            y += (row == id ? 1.0L : 0.0L) * in[fmt::format("table{}", i)][row * D + j];
        }
        out.real["y"].push_back(static_cast<double>(y));
      }
    }
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
  const Lists lists{{5}, {0}};
  lists.add(op, B * T);
  const auto configure = [](auto& o) { o.tables = 1; };
  call<Lookup>(op, configure);
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
    lists.make(exec, s);
    forward(exec, bound<Lookup, Real>(s, configure));
  });
  op.oracle([=](const Values& in, Values& out) {
    lists.oracle(in.integer.at("ids"), 1, out);
    for (int n = 0; n < B * T; ++n) {
      const int id = in.integer.at("ids")[n];
      for (int j = 0; j < D; ++j)
        out.real["y"].push_back((id < 0 ? 0.0 : in["table0"][id * D + j]) + in["bias"][n % T * D + j]);
    }
  });
  return op.roundings(B + 1).gradient_elements(100);
}

std::vector<OpCase> positions() {
  return {with_positions("One", 1, 1, 1, 1), with_positions("Whole", 3, 4, 4, 8),
          with_positions("Shorter", 3, 4, 7, 5), with_positions("Many", 70, 5, 6, 32)};
}

INSTANTIATE_TEST_SUITE_P(LookupPositions, OpCheck, ::testing::ValuesIn(positions()), case_name);
INSTANTIATE_TEST_SUITE_P(Lookup, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// Three channels, the last of which reads the first table once more; if `few`, it and the second have no lists.
OpCase tied(const std::string& name, int N, int D, int rows0, int rows1, bool few = false) {
  OpCase op(name);
  op.integers("ids", {N, 3}, integer_in(-1, std::min(rows0, rows1) - 1)).output("y", {N, D});
  op.input("table0", {rows0, D}, normal()).input("table1", {rows1, D}, normal()).absent("bias");
  const Lists lists{{rows0, rows1, rows0}, {2, 1, 0}};
  lists.add(op, N);
  const auto lookup = [=]<class Real>(TensorSet<Real>& s) {
    Lookup<Real> o = bound<Lookup, Real>(s, [](auto& all) { all.tables = 3; });
    for (int i = 0; i < 3; ++i) o.channel[i] = lists.channel[i];
    o.table[2] = o.table[0];
    if (o.table[2].wanted()) o.table[2].write = Write::add;
    if (few) o.order[2] = o.start[2] = o.order[1] = o.start[1] = {};
    return o;
  };
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
    lists.make(exec, s);
    forward(exec, lookup(s));
  });
  op.backward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) { backward(exec, lookup(s)); });
  op.oracle([=](const Values& in, Values& out) {
    const Integers& ids = in.integer.at("ids");
    lists.oracle(ids, 3, out);
    for (int n = 0; n < N; ++n) {
      for (int j = 0; j < D; ++j) {
        double y = 0;
        for (int c = 0; c < 3; ++c) {
          const int id = ids[3 * n + c];
          if (id >= 0) y += in[c == 1 ? "table1" : "table0"][id * D + j];
        }
        out.real["y"].push_back(y);
      }
    }
  });
  return op.roundings(2 * N + 3).gradient_elements(100);
}

INSTANTIATE_TEST_SUITE_P(LookupTied, OpCheck,
                         ::testing::Values(tied("Few", 9, 5, 4, 3), tied("Many", 150, 8, 21, 33)), case_name);

struct Sizes {
  int N, D, rows0, rows1;
};
const Sizes kSizes[] = {{1, 1, 1, 1},      {7, 3, 2, 5},       {640, 64, 20, 44}, {700, 1, 600, 3},
                        {333, 65, 37, 90}, {1300, 130, 5, 33}, {3000, 2, 700, 1}, {2049, 12, 40, 17},
                        {32, 300, 9, 50},  {256, 66, 40, 3}};

std::vector<OpCase> sizes() {
  std::vector<OpCase> all;
  const auto add = [&](const OpCase& op, int N) { all.push_back(OpCase(op).on_cuda({3, 1}, {1.0 * N, 1})); };
  for (const auto& [N, D, rows0, rows1] : kSizes) {
    const std::string shape = fmt::format("{}x{}x{}x{}", N, D, rows0, rows1);
    const int more = std::max(rows0, rows1);
    add(make("OneTable" + shape, N, 3, D, {rows0}, {2}, false), N);
    add(make("TwoTables" + shape, N, 2, D, {rows0, rows1}, {1, 0}, false), N);
    add(make("TwoTablesBias" + shape, N, 3, D, {rows0, more}, {2, 1}, true), N);
    add(tied("Tied" + shape, N, D, rows0, more), N);
    if (N <= kFewIds) add(tied("Few" + shape, N, D, rows0, more, true), N);
  }
  // A few tokens that stand nearly everywhere, as fillers do, among many that stand nowhere.
  for (const auto& [N, D, rows] : {std::tuple{7001, 70, 200}, {90001, 36, 130}})
    add(make(fmt::format("Fillers{}", N), N, 1, D, {rows}, {0}, false, integer_in(-1, 2)), N);
  // The same with a row behind those that one cluster looks at, beside another table.
  add(make("FillersOfTwoTables", 10000, 2, 12, {600, 700}, {1, 0}, false,
           [](RandomStream& random, int, std::int64_t) { return random.below(2) ? 3 : 599; }),
      10000);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Lookup, CudaOpCheck, ::testing::ValuesIn(sizes()), case_name);

/// Lists of several batches, one after the other in one tensor.
std::vector<OpCase> copies_of_lists() {
  std::vector<OpCase> all;
  const auto add = [&](int N, int rows) {
    for (const int copies : {1, 3}) {
      OpCase op(fmt::format("{}x{}x{}", N, rows, copies));
      op.integers("ids", {copies * N, 3}, integer_in(-1, rows - 1));
      op.integer_output("order", {copies * N}).integer_output("start", {copies * (rows + 1)});
      op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& s) {
        BucketIds<Real> lists{s.integer("ids"), 1, copies, s.integer("order"), s.integer("start")};
        for (auto* t : {&lists.ids, &lists.order, &lists.start}) t->dims[0] /= copies;  // those of one batch
        run(exec, lists);
      });
      all.push_back(op);
    }
  };
  for (const Sizes& s : kSizes) add(s.N, s.rows0);
  for (const int rows : {1024, 1025, 2049, 8192}) add(20'000, rows);
  return all;
}

INSTANTIATE_TEST_SUITE_P(BucketIds, CudaOpCheck, ::testing::ValuesIn(copies_of_lists()), case_name);

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
}  // namespace crosstalk::checks::lookup_test
