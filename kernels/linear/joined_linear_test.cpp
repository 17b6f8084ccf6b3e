// Affine maps of one input against naive sums; operands in bf16 for the form in tiles, and its sizes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/joined_linear.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::joined_linear_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Sizes {
  int N, I;
  std::vector<int> O;
  bool bias = true;
  Precision precision = Precision::full;
  bool last_unused = false;  ///< nobody differentiates the last output
};

std::string name_of(const char* field, std::size_t i) { return fmt::format("{}{}", field, i); }

int widest(const Sizes& s) { return std::max({s.N, s.I, *std::max_element(s.O.begin(), s.O.end())}); }

template <class Real>
JoinedLinear<Real> shaped_op(const Sizes& s) {
  JoinedLinear<Real> op;
  op.precision = s.precision, op.device = Device::cuda, op.outputs = static_cast<int>(s.O.size());
  op.x.value = shaped<Real>(1, {s.N, s.I});
  for (std::size_t i = 0; i < s.O.size(); ++i) op.w[i].value = shaped<Real>(1, {s.O[i], s.I});
  op.plan();
  return op;
}

void add_pieces(OpCase& op, const Sizes& s) {
  const auto pieces = shaped_op<float>(s).pieces.value;
  if (pieces.rank > 0) op.workspace("pieces", {pieces.dim(0), pieces.dim(1)});
  const auto operands = shaped_op<float>(s).operands.value;
  if (operands.rank > 0) op.workspace("operands", {operands.dim(0)});
}

Numbers rounded_to(Precision precision, Numbers x) {
  for (double& e : x) e = rounded(precision, e);
  return x;
}

/// y_i of x, w_i and b_i, operands rounded.
Values maps(const Sizes& s, const Values& in) {
  Values out;
  const Numbers x = rounded_to(s.precision, in["x"]);
  for (std::size_t i = 0; i < s.O.size(); ++i) {
    const Numbers w = rounded_to(s.precision, in[name_of("w", i)]), &b = in[name_of("b", i)];
    Numbers& y = out.real[name_of("y", i)];
    for (int n = 0; n < s.N; ++n) {
      for (int o = 0; o < s.O[i]; ++o) {
        long double sum = b.empty() ? 0 : b[o];
        for (int c = 0; c < s.I; ++c) sum += static_cast<long double>(x[n * s.I + c]) * w[o * s.I + c];
        y.push_back(static_cast<double>(sum));
      }
    }
  }
  return out;
}

OpCase make(const std::string& name, const Sizes& s) {
  OpCase op(name);
  op.input("x", {s.N, s.I}, normal());
  for (std::size_t i = 0; i < s.O.size(); ++i) {
    op.input(name_of("w", i), {s.O[i], s.I}, normal());
    op.optional(s.bias && i != 1, name_of("b", i), {s.O[i]}, normal());
    if (s.last_unused && i + 1 == s.O.size())
      op.output_without_gradient(name_of("y", i), {s.N, s.O[i]});
    else
      op.output(name_of("y", i), {s.N, s.O[i]});
  }
  const auto configure = [s](auto& o) {
    o.precision = s.precision, o.outputs = static_cast<int>(s.O.size());
  };
  if (s.precision == Precision::full)
    call<JoinedLinear>(op, configure);
  else
    call_forward<JoinedLinear>(op, configure);  // differences say nothing about a map that rounds
  op.oracle([s](const Values& in, Values& out) { out = maps(s, in); });
  return op.roundings(s.precision == Precision::full ? widest(s) : s.I).gradient_elements(60);
}

// Backward has an oracle too: the products of Linear's header.
OpCase rounding_backward(const std::string& name, const Sizes& s, bool adds = false) {
  OpCase op(name);
  op.input("x", {s.N, s.I}, normal()).output_without_gradient("x_out", {s.N, s.I});
  for (std::size_t i = 0; i < s.O.size(); ++i) {
    op.input(name_of("w", i), {s.O[i], s.I}, normal()).input(name_of("g", i), {s.N, s.O[i]}, normal());
    op.output_without_gradient(name_of("w_out", i), {s.O[i], s.I});
    op.output_without_gradient(name_of("b_out", i), {s.O[i]});
  }
  add_pieces(op, s);
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& set) {
    JoinedLinear<Real> a;
    a.precision = s.precision, a.outputs = static_cast<int>(s.O.size());
    a.x.value = set.real("x"), a.x.gradient = set.real("x_out"), a.x.write = Write::overwrite;
    for (int i = 0; i < a.outputs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      a.w[i].value = set.real(name_of("w", at)), a.y[i].gradient = set.real(name_of("g", at));
      a.w[i].gradient = set.real(name_of("w_out", at)), a.b[i].gradient = set.real(name_of("b_out", at));
      a.w[i].write = a.b[i].write = Write::overwrite;
    }
    if (set.reals.has("pieces")) a.pieces.value = set.real("pieces");
    if (set.reals.has("operands")) a.operands.value = set.real("operands");
    backward(exec, a);
    if (!adds) return;
    a.x.write = Write::add;
    for (int i = 0; i < a.outputs; ++i) a.w[i].write = a.b[i].write = Write::add;
    backward(exec, a);
  });
  op.oracle([=](const Values& in, Values& out) {
    const double times = adds ? 2 : 1;
    const Numbers x = rounded_to(s.precision, in["x"]);
    Numbers& d_x = out.real["x_out"];
    d_x.assign(x.size(), 0);
    for (std::size_t i = 0; i < s.O.size(); ++i) {
      const Numbers &g = in[name_of("g", i)], y = rounded_to(s.precision, g),
                    w = rounded_to(s.precision, in[name_of("w", i)]);
      Numbers &d_w = out.real[name_of("w_out", i)], &d_b = out.real[name_of("b_out", i)];
      d_w.assign(w.size(), 0), d_b.assign(static_cast<std::size_t>(s.O[i]), 0);
      for (int n = 0; n < s.N; ++n) {
        for (int o = 0; o < s.O[i]; ++o) {
          const auto at = static_cast<std::size_t>(n * s.O[i] + o);
          d_b[o] += times * g[at];
          for (int c = 0; c < s.I; ++c) {
            const auto x_at = static_cast<std::size_t>(n * s.I + c),
                       w_at = static_cast<std::size_t>(o * s.I + c);
            d_x[x_at] += times * y[at] * w[w_at];
            d_w[w_at] += times * y[at] * x[x_at];
          }
        }
      }
    }
  });
  return op.roundings(widest(s));
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all = {
      make("One", {5, 7, {3}}), make("Two", {5, 7, {3, 4}}), make("Three", {6, 4, {5, 1, 9}}),
      make("Unused", {6, 4, {5, 2}, true, Precision::full, true}), make("NoBias", {4, 3, {2, 2}, false})};
  const Sizes tiles[] = {{67, 64, {34}},
                         {70, 128, {128, 64}},
                         {70, 100, {7, 2, 1}},
                         {65, 36, {130, 5}},
                         {300, 4, {3}},
                         {1, 128, {16}},
                         {40, 64, {64, 80}},
                         {64, 128, {1, 2, 3, 4, 5, 6, 7, 8}},
                         {1900, 8, {5, 3}},
                         {40, 128, {480}},
                         {67, 136, {34}},
                         {130, 256, {256, 2}},
                         {300, 200, {7, 64, 1, 66}},
                         {1, 512, {16}},
                         {700, 264, {200, 8}}};
  int i = 0;
  for (Sizes s : tiles) {
    s.precision = Precision::bf16;
    all.push_back(make(fmt::format("Bf16_{}", i), s));
    all.push_back(rounding_backward(fmt::format("Bf16Backward_{}", i++), s));
  }
  Sizes adds = tiles[2];
  adds.precision = Precision::bf16;
  all.push_back(rounding_backward("Bf16Adds", adds, true));
  return all;
}

INSTANTIATE_TEST_SUITE_P(JoinedLinear, OpCheck, ::testing::ValuesIn(cases()), case_name);

// Sizes that the form in tiles takes, and how it cuts them.
TEST(JoinedLinearTest, Slabs) {
  const auto slabs = [](const Sizes& s) { return shaped_op<float>(s).slabs(227 * 1024); };
  const LinearSlabs s = slabs({65536, 128, {128, 130, 1}, true, Precision::bf16});
  ASSERT_EQ(s.count, 4);
  EXPECT_EQ(s.columns, 128 + 128 + 16 + 16);
  EXPECT_EQ(s.slab[2].first, 128);
  EXPECT_EQ(s.slab[2].width, 2);
  EXPECT_EQ(s.slab[3].at, 272);
  EXPECT_EQ(s.pieces, 33);
  EXPECT_EQ(slabs({64, 128, {128}, true, Precision::bf16}).pieces, 1);
  EXPECT_EQ(slabs({64, 130, {128}, true, Precision::bf16}).count, 0);
  EXPECT_EQ(slabs({64, 66, {128}, true, Precision::bf16}).count, 0);
  EXPECT_EQ(slabs({64, 128, {512}, true, Precision::bf16}).count, 4);
  EXPECT_EQ(slabs({64, 128, {513}, true, Precision::bf16}).count, 0);
  EXPECT_EQ(slabs({64, 128, {128}, true, Precision::tf32}).count, 0);
  const LinearSlabs wide = slabs({65536, 256, {256, 2, 130}, true, Precision::bf16});
  ASSERT_TRUE(wide.is_wide());
  EXPECT_EQ(wide.count, 4 + 1 + 3);  // blocks of 64
  EXPECT_EQ(wide.first_block[2], 5);
  EXPECT_EQ(wide.pieces, 33);  // of 4 by 2 tiles, two a multiprocessor
  EXPECT_EQ(wide.operand_size(), 8 * 64 * 256 / 2);
  EXPECT_EQ(slabs({64, 264, {8}, true, Precision::bf16}).whole_inputs(), 320);
  EXPECT_EQ(slabs({64, 264, {8}, true, Precision::tf32}).count, 0);
}

// Shared memory of the kernels, in bytes as they ask for it.
TEST(JoinedLinearTest, FitsTheSharedMemoryThatThereIs) {
  const auto slabs = [](int inputs, int width, int outputs) {
    LinearSlabs s;
    s.inputs = inputs;
    for (int i = 0; i < outputs; ++i) EXPECT_TRUE(s.add(i, width));
    return s;
  };
  constexpr std::size_t kKiB = 1024;
  LinearSlabs s = slabs(64, 64, 3);
  EXPECT_TRUE(s.fit_walk(128, 227 * kKiB));
  EXPECT_EQ(s.depth, 2);
  EXPECT_EQ(s.places, 2);
  EXPECT_EQ(s.walk_bytes(128), 192u * 72 * 2 + 2 * 64 * 136 * 2 + 2 * 64 * 128 * 4 + 192 * 4 + 256);
  EXPECT_TRUE(s.fit_walk(128, 99 * kKiB));
  EXPECT_EQ(s.depth, 1);
  EXPECT_LE(s.walk_bytes(128), 99 * kKiB);
  EXPECT_TRUE(s.fits(99 * kKiB));
  EXPECT_FALSE(s.fits(76 * kKiB));
  for (const auto& [outputs, kib] : {std::pair{1, 99}, {3, 163}}) {
    s = slabs(128, 128, outputs);
    EXPECT_TRUE(s.fits(static_cast<std::size_t>(kib) * kKiB)) << outputs;
    EXPECT_TRUE(s.fit_walk(128, static_cast<std::size_t>(kib) * kKiB));
    EXPECT_LE(s.walk_bytes(128), static_cast<std::size_t>(kib) * kKiB);
    EXPECT_FALSE(slabs(128, 128, outputs + 1).fits(static_cast<std::size_t>(kib) * kKiB)) << outputs;
  }
  s = slabs(128, 128, 1);
  EXPECT_EQ(s.weights_bytes(2), 196u * kKiB);
  EXPECT_EQ(s.weights_bytes(1), 98u * kKiB);
}

class JoinedLinearOnCuda : public CudaTest {
 protected:
  using Results = std::map<std::string, std::vector<float>>;

  /// Outputs and gradients (x_out, y_out0, w_out0, b_out0, .., and _R of replica R > 0) of numbers in (-0.5, 0.5) that bf16
  /// holds. Of outputs i with is_bf16(i) gradients are bf16, and where x is bf16 the outputs too. `again`: backward once
  /// more, added: "twice_" stands before these.
  static Results results(const Sizes& s, int replicas, std::uint64_t seed, Format of_x, const auto& is_bf16,
                         bool again = false) {
    TensorSet<float> set(Device::cuda);
    JoinedLinear<float> op = shaped_op<float>(s);
    for (const char* name : {"x", "x_out"}) set.reals.add(name, replicas, {s.N, s.I}, of_x);
    for (std::size_t i = 0; i < s.O.size(); ++i) {
      const Format format = is_bf16(i) ? Format::bf16 : Format::native;
      set.reals.add(name_of("g", i), replicas, {s.N, s.O[i]}, format);
      set.reals.add(name_of("y_out", i), replicas, {s.N, s.O[i]}, of_x == Format::bf16 ? format : of_x);
      for (const char* name : {"w", "w_out"}) set.reals.add(name_of(name, i), replicas, {s.O[i], s.I});
      for (const char* name : {"b", "b_out"}) set.reals.add(name_of(name, i), replicas, {s.O[i]});
    }
    for (const auto& [name, t] : {std::pair{"pieces", op.pieces.value}, {"operands", op.operands.value}})
      if (t.rank > 0) set.reals.add(name, replicas, std::vector<int>(t.dims, t.dims + t.rank));
    set.allocate();
    RandomStream random(seed, RandomDomain::initialisation, 0);
    for (const auto& [name, t] : set.reals.all()) {
      for (int r = 0; r < replicas; ++r) {
        std::vector<float> numbers;
        for (std::int64_t i = 0; i < t.size(); ++i)
          numbers.push_back(rounded(Precision::bf16, static_cast<float>(random.uniform() - 0.5)));
        upload(Device::cuda, t, r, numbers);
      }
    }
    op.x.value = set.real("x"), op.x.gradient = set.real("x_out"), op.x.write = Write::overwrite;
    if (op.pieces.value.rank > 0) op.pieces.value = set.real("pieces");
    if (op.operands.value.rank > 0) op.operands.value = set.real("operands");
    for (int i = 0; i < op.outputs; ++i) {
      const auto of = [&](const char* name) { return set.real(name_of(name, static_cast<std::size_t>(i))); };
      op.w[i].value = of("w"), op.w[i].gradient = of("w_out"), op.b[i].value = of("b");
      op.b[i].gradient = of("b_out"), op.w[i].write = op.b[i].write = Write::overwrite;
      op.y[i].value = of("y_out"), op.y[i].gradient = of("g");
    }
    Results out;
    const auto keep = [&](const std::string& before) {
      for (const auto& [name, t] : set.reals.all())
        for (int r = 0; r < replicas && name.find("_out") != std::string::npos; ++r)
          out[before + name + (r > 0 ? fmt::format("_{}", r) : "")] = download(Device::cuda, t, r);
    };
    const Exec exec = {.device = Device::cuda};
    forward(exec, op), backward(exec, op);
    keep("");
    if (!again) return out;
    op.x.write = Write::add;
    for (int i = 0; i < op.outputs; ++i) op.w[i].write = op.b[i].write = Write::add;
    backward(exec, op);
    keep("twice_");
    return out;
  }
};

// Tiles of both formats follow one another in a block's memory: gradients of outputs that are bf16 already are those of the same
// numbers as floats, bit for bit.
TEST_F(JoinedLinearOnCuda, GradientsOfBothFormatsTogether) {
  const Sizes s{30000, 128, {128, 2, 16, 128, 5, 64}, true, Precision::bf16};
  const auto gradients = [&](bool narrow) {
    return results(s, 1, 5, Format::native,
                   [&](std::size_t i) { return narrow && s.O[i] % 8 == 0 && i != 3; });
  };
  if (shaped_op<float>(s).slabs().count == 0) {  // too little shared memory: plain products read fp32 alone
    EXPECT_THROW(gradients(true), std::logic_error);
    return;
  }
  EXPECT_EQ(gradients(true), gradients(false));
}

// More inputs than a tile has: whatever is bf16 holds the rounded numbers of what is not, and the rest the same ones.
TEST_F(JoinedLinearOnCuda, WideMapsOfEitherFormat) {
  for (const Sizes& s :
       {Sizes{3000, 256, {256, 2, 16, 136, 5, 64}, true, Precision::bf16},
        Sizes{200, 136, {136, 5}, true, Precision::bf16}, Sizes{70, 520, {8, 512}, true, Precision::bf16}}) {
    if (s.N > 1000 && few_replicas()) continue;  // under compute-sanitizer
    const auto all = [&](bool narrow) {
      return results(
          s, 2, 6, narrow ? Format::bf16 : Format::native,
          [&](std::size_t i) { return narrow && s.O[i] % 8 == 0 && i != 3; }, narrow);
    };
    const auto wide = all(false);
    auto narrow = all(true);
    for (const auto& [name, numbers] : wide) {
      std::vector<float> want = numbers;
      const auto output = name.substr(0, 5) == "y_out" ? std::stoul(name.substr(5)) : 0;
      const bool is_bf16 = name.substr(0, 5) == "x_out" ||
                           (name.substr(0, 5) == "y_out" && s.O[output] % 8 == 0 && output != 3);
      for (float& e : want) e = is_bf16 ? rounded(Precision::bf16, e) : e;
      EXPECT_EQ(narrow[name], want) << name;
      if (name.substr(0, 5) == "y_out") continue;
      for (float& e : want) e += e;
      if (name.substr(0, 5) != "x_out") {
        EXPECT_EQ(narrow["twice_" + name], want) << name;
      } else {  // what is added is not rounded before
        EXPECT_TRUE(close(name, narrow["twice_" + name].data(), want.data(),
                          static_cast<std::int64_t>(want.size()), 0.1));
      }
    }
  }
}

// Rows in bf16 with narrow outputs among them, by kernels of whole blocks: as the same numbers in floats, but for the rounding of
// what is bf16. Weights that do not fit shared memory are multiplied apart, and bf16 is refused.
TEST_F(JoinedLinearOnCuda, NarrowOutputsBesideRowsInBf16) {
  for (const Sizes& s : {Sizes{1000, 128, {2, 128, 128, 20, 128}, true, Precision::bf16},
                         Sizes{1000, 128, {128, 128, 64, 128, 2}, false, Precision::bf16},
                         Sizes{1000, 128, {2, 128, 128}, true, Precision::bf16},
                         Sizes{333, 64, {64, 1, 64, 16}, true, Precision::bf16}}) {
    SCOPED_TRACE(fmt::format("{} inputs, {} outputs", s.I, s.O.size()));
    // but_second: that one has floats. Backward once more adds to what there is.
    const auto all = [&](bool narrow, bool but_second) {
      return results(
          s, 1, 7, narrow ? Format::bf16 : Format::native,
          [&](std::size_t i) { return narrow && s.O[i] % 64 == 0 && !(but_second && i == 1); }, true);
    };
    const auto want = all(false, false);
    for (const bool but_second : {false, true}) {
      if (shaped_op<float>(s).slabs().count == 0) {
        EXPECT_LT(shared_memory_limit(), 227u * 1024);
        EXPECT_THAT([&] { all(true, but_second); },
                    ThrowsMessage<std::logic_error>(HasSubstr("in tiles alone takes bf16")));
        continue;
      }
      for (const auto& [name, x] : all(true, but_second)) {
        const std::vector<float>& y = want.at(name);
        const auto n = static_cast<std::int64_t>(y.size());
        EXPECT_TRUE(close(name, x.data(), y.data(), n, 4e-3 * magnitude(y.data(), n))) << but_second;
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::joined_linear_test
