// Formats of variables: what refuses bf16, in which words, and how a graph gives a variable another format.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <crosstalk_ops.h>
#include "models/graph/graph.h"

namespace crosstalk::checks::formats_test {

/// An op that keeps its input for backward, in a format of its choice.
template <class Real>
struct Keep {
  Format format = Format::native;
  In<Real> x;
  Out<Real> y;
  Saved<Real> kept;
  static constexpr const char* kName = "keep";
  CROSSTALK_FIELDS(x, y, kept)
  CROSSTALK_BF16_FIELDS(kept)
  void plan() {
    y.value = kept.value = without_memory(x.value);
    kept.value.format = format;
  }
};
template <class Real>
void forward_cpu(const Exec&, const Keep<Real>&) {}
template <class Real>
void backward_cpu(const Exec&, const Keep<Real>&) {}
template <class Real>
void forward_cuda(const Exec&, const Keep<Real>&) {}
template <class Real>
void backward_cuda(const Exec&, const Keep<Real>&) {}
/// The same, but no field may be bf16.
template <class Real>
struct KeepAsItIs : Keep<Real> {
  void bf16_fields() = delete;
};

namespace {

using ::testing::HasSubstr;
using Var = Variable<float>;

/// A graph of a GPU that nobody runs: its memory is counted only.
struct OnGpu {
  MemoryMeasure measure;
  Graph<float> graph{Device::cuda, 1, true};
};

void expect_refused(const std::function<void()>& make, const std::string& sentence) {
  try {
    make();
    ADD_FAILURE() << "nobody said: " << sentence;
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(sentence));
  }
}

/// Adds the op once for each of its fields, which alone is bf16; those that it names it need not refuse.
template <template <class> class Op>
struct EachField {
  int* refused;
  Op<float>* op;
  const detail::Bf16Fields* may;
  template <class Field>
  void operator()(const char* name, Field& field) const {
    if constexpr (requires { field.variable; }) {
      if (may->have(&field)) return;
      OnGpu gpu;
      field.value.format = Format::bf16;
      expect_refused([&] { gpu.graph.add(*op); },
                     fmt::format("[{}] {} may not be bf16; ", Op<float>::kName, name));
      field.value.format = Format::native;
      ++*refused;
    }
  }
};

template <template <class> class Op>
int refused_fields() {
  Op<float> op;
  const detail::Bf16Fields may(op);
  int refused = 0;
  op.fields(EachField<Op>{&refused, &op, &may});
  return refused;
}

TEST(Formats, OpsRefuseFieldsThatTheyDoNotName) {
  std::string none;  // of whose fields all may be bf16
#define CROSSTALK_CHECK_OP(Op) \
  if (refused_fields<Op>() == 0) none += #Op;
  CROSSTALK_OPS(CROSSTALK_CHECK_OP)
#undef CROSSTALK_CHECK_OP
  EXPECT_EQ(none, "Pick");
}

TEST(Formats, GradientsAreRefusedToo) {
  OnGpu gpu;
  Var* x = gpu.graph.variable({2, 3});
  x->gradient.format = Format::bf16;
  Map<float> map;
  map.x = in(x);
  expect_refused([&] { gpu.graph.add(map); }, "[map] x may not be bf16; no field of this op may");
}

TEST(Formats, OtherDevicesAndDoublesHaveNone) {
  Graph<float> cpu(Device::cpu, 1, true);
  expect_refused([&] { cpu.variable({2, 8}, Format::bf16); }, "tensors are bf16 on a GPU only");
  Graph<double> wide(Device::cuda, 1, true);
  expect_refused([&] { wide.variable({2, 8}, Format::bf16); }, "only those of float");
}

TEST(Formats, NodesOfFunctionsHaveNone) {
  OnGpu gpu;
  Var* x = gpu.graph.variable({2, 8}, Format::bf16);
  expect_refused(
      [&] {
        gpu.graph.node(
            "look", {x}, {}, [](const Exec&) {}, [](const Exec&, const std::vector<Write>&) {});
      },
      "[graph] node look has a variable in bf16");
}

// A format that the kernels of an op do not read is refused when it is planned.
TEST(Formats, KernelsThatDoNotReadThemRefuse) {
  OnGpu gpu;
  Graph<float>& graph = gpu.graph;
  const auto bf16 = [&](std::initializer_list<Dimension> dims) { return graph.variable(dims, Format::bf16); };
  const auto fp32 = [&](std::initializer_list<Dimension> dims) { return graph.variable(dims); };
  Pick<float> pick;
  pick.x = in(bf16({2, 5, 1, 8}));
  expect_refused([&] { graph.add(pick); }, "[pick] x, y and their gradients have one format");
  pick.x = in(bf16({2, 5, 1, 3})), pick.y.variable = bf16({2, 1, 1, 3});
  expect_refused([&] { graph.add(pick); }, "[pick] numbers in bf16 are picked in pairs");
  JoinedLinear<float> maps;
  maps.outputs = 1, maps.device = Device::cuda;
  maps.x = in(bf16({6, 8})), maps.w[0] = in(fp32({16, 8}));
  expect_refused([&] { graph.add(maps); },
                 "[joined_linear] only the form in tiles takes bf16");  // products are not
  maps.precision = Precision::bf16;
  EXPECT_EQ(graph.add(maps).y[0].value.format, Format::native);
  maps.y[0].variable = bf16({6, 16});
  EXPECT_EQ(graph.add(maps).y[0].value.format, Format::bf16);
  maps.w[0] = in(fp32({12, 8})), maps.y[0].variable = bf16({6, 12});
  expect_refused([&] { graph.add(maps); }, "in columns of multiples of 8");
  maps.w[0] = in(bf16({16, 8})), maps.y[0].variable = nullptr;
  expect_refused([&] { graph.add(maps); }, "[joined_linear] w0 may not be bf16; x, y0 of this op may");
  ResidualNorm<float> norm;
  norm.x = in(fp32({6, 48})), norm.branch = in(bf16({6, 48})), norm.gain = in(fp32({48}));
  expect_refused([&] { graph.add(norm); }, "[residual_norm] a branch is fp32");
  norm.x = in(fp32({6, 520})), norm.branch = {}, norm.gain = in(fp32({520}));
  norm.y.variable = bf16({6, 520});
  expect_refused([&] { graph.add(norm); }, "only rows of multiples of 8, up to 512");
  AttendMix<float> reads;
  reads.products = Precision::bf16;
  reads.x = in(bf16({2, 40, 1, 64})), reads.k = in(bf16({2, 40, 1, 64})), reads.v = in(fp32({2, 40, 1, 64}));
  expect_refused([&] { graph.add(reads); }, "[attend_mix] x, k, v, o and their gradients have one format");
  reads.v = in(bf16({2, 40, 1, 64})), reads.o.variable = bf16({2, 40, 1, 64});
  expect_refused([&] { graph.add(reads); }, "only whole heads of multiples of 8");  // they are few
}

// A tensor that any op keeps for backward may be bf16, by its own choice or by that of a pass.
TEST(Formats, KeptNumbersTakeHalfTheBytes) {
  const auto bytes = [](Format format, Format exchanged, bool train = true) {
    MemoryMeasure measure;
    Graph<float> graph(Device::cuda, 1, train);
    Keep<float> op;
    op.format = format;
    op.x = in(graph.variable({64, 256}));
    const Keep<float>& added = graph.add(op);
    if (train) {
      auto* kept = static_cast<Var*>(added.kept.variable);
      EXPECT_EQ(kept->value.format, format);
      if (exchanged != format) graph.reformat({{kept, exchanged, exchanged}});
    }
    graph.plan();
    return graph.bytes();
  };
  constexpr std::size_t kNumbers = 64 * 256;
  const std::size_t none = bytes(Format::native, Format::native, false);
  EXPECT_EQ(bytes(Format::native, Format::native) - none, 4 * kNumbers);
  EXPECT_EQ(bytes(Format::bf16, Format::bf16) - none, 2 * kNumbers);
  EXPECT_EQ(bytes(Format::native, Format::bf16) - none, 2 * kNumbers);
  OnGpu gpu;
  KeepAsItIs<float> op;
  op.format = Format::bf16;
  op.x = in(gpu.graph.variable({4, 8}));
  expect_refused([&] { gpu.graph.add(op); }, "[keep] kept may not be bf16; no field of this op may");
}

// A new variable and new ops, each where the old one stood; views follow.
TEST(Formats, AVariableIsExchanged) {
  std::size_t bytes[2];
  for (const bool changes : {false, true}) {
    OnGpu gpu;
    Graph<float>& graph = gpu.graph;
    Var *x = graph.variable({6, 8}), *w = graph.variable({64, 8}), *after = graph.variable({16, 64});
    const auto map = [&](Var* from, Var* weights) {
      JoinedLinear<float> op;
      op.precision = Precision::bf16, op.device = Device::cuda, op.outputs = 1;
      op.x = in(from), op.w[0] = in(weights);
      return out(graph.add(op).y[0]);
    };
    Var* between = map(x, w);
    Map<float> twice;
    twice.x = in(map(graph.view(between, {2, 3, 64}), after));
    graph.add(twice);
    EXPECT_TRUE(graph.may_be_bf16(between));
    EXPECT_FALSE(graph.may_be_bf16(w));
    if (changes) graph.reformat({{between, Format::bf16, Format::bf16}});
    EXPECT_EQ(graph.node_names(),
              (std::vector<std::string>{"joined_linear:tiles", "joined_linear:tiles", "map"}));
    Var *made = graph.nodes()[0].outputs[0], *read = graph.nodes()[1].inputs[0];
    EXPECT_EQ(made == between, !changes);
    EXPECT_EQ(made->value.format, changes ? Format::bf16 : Format::native);
    EXPECT_EQ(read->root(), made);
    EXPECT_EQ(read->value.rank, 3);
    EXPECT_EQ(read->value.format, made->value.format);
    EXPECT_EQ(read->value.columns(), 64);
    graph.plan();
    bytes[changes] = graph.bytes();
  }
  EXPECT_LT(bytes[true], bytes[false]);
}

TEST(Formats, WhatOthersReadStaysAsItIs) {
  OnGpu gpu;
  Var* x = gpu.graph.variable({2, 5, 1, 8});
  Pick<float> pick;
  pick.x = in(x);
  Var* y = out(gpu.graph.add(pick).y);
  EXPECT_TRUE(gpu.graph.may_be_bf16(x));
  EXPECT_TRUE(gpu.graph.may_be_bf16(y));
  Map<float> map;
  map.x = in(y);
  gpu.graph.add(map);
  EXPECT_FALSE(gpu.graph.may_be_bf16(y));
  expect_refused(
      [&] {
        gpu.graph.reformat({{y, Format::bf16, Format::bf16}});
      },
      "[pick] x, y and their gradients have one format");
  gpu.graph.keep(x);
  EXPECT_FALSE(gpu.graph.may_be_bf16(x));
  expect_refused(
      [&] {
        gpu.graph.reformat({{x, Format::bf16, Format::bf16}});
      },
      "this variable's format is not the graph's to choose");
}

}  // namespace
}  // namespace crosstalk::checks::formats_test
