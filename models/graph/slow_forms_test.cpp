// Words of a plan on slow forms: shapes and sentences, and on a GPU no silence where records name the slow form.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/slow_forms.h"

#include <gmock/gmock.h>

#include <tuple>

#include "kernels/attention/attend.h"
#include "kernels/attention/solve.h"
#include "kernels/base/form.h"
#include "kernels/conv/long_conv.h"
#include "kernels/law/fwm.h"
#include "kernels/law/network_read.h"
#include "kernels/law/ridge_read.h"
#include "kernels/recurrence/state_read.h"
#include "kernels/testing/cuda_test.h"

namespace crosstalk::checks::slow_forms_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

struct Shape {
  int K = 64, V = 64;
  StateForm form = StateForm::chunkwise;
  Erase erase = Erase::delta;
  bool one_variable = false;  ///< of values and queries: no kernel in chunks takes it
};

/// A graph of a GPU that nobody runs: its memory is counted only.
template <class Real>
struct OnGpu {
  MemoryMeasure measure;
  Graph<Real> graph{Device::cuda, 1, true};
  explicit OnGpu(const Shape& s) {
    StateRead<Real> op;
    op.form = s.form, op.erase = s.erase;
    const auto field = [&](int columns) { return in(graph.variable({2, 64, 1, columns})); };
    op.q = field(s.K), op.k = field(s.K), op.v = s.one_variable ? op.q : field(s.V);
    if (s.form == StateForm::recurrent) op.erase = Erase::none;
    graph.add(op);
  }
};
template <class Real>
std::vector<std::string> of(const Shape& s) {
  return slow_forms(OnGpu<Real>(s).graph);
}

TEST(SlowForms, NameTheOpAndTheReason) {
  EXPECT_THAT(of<float>({.V = 256}),
              ElementsAre("state_read walks token after token: 256 values a head are more than 128"));
  EXPECT_THAT(
      of<float>({.K = 256}),
      ElementsAre(
          "state_read walks token after token: 256 key channels a head are more than 128 where the state erases"));
  EXPECT_THAT(of<double>({}), ElementsAre("state_read walks token after token: numbers are fp64"));
  EXPECT_THAT(
      of<float>({.form = StateForm::recurrent}),
      ElementsAre(
          "state_read walks token after token: memory.form asks for it, or every row of the state fades at a rate of its own"));
}

TEST(SlowForms, OfAttentionAreThoseWithAllWeightsInMemory) {
  for (const int K : {64, 192}) {
    MemoryMeasure measure;
    Graph<float> graph(Device::cuda, 1, true);
    Attend<float> op;
    op.normalised = true;
    op.x = in(graph.variable({2, 64, 1, K})), op.k = in(graph.variable({2, 64, 1, K}));
    graph.add(op);
    if (K > 128) {
      EXPECT_THAT(
          slow_forms(graph),
          ElementsAre(
              "attend keeps all 64 x 64 weights of a head: 192 key channels a head are more than 128"));
    } else {
      EXPECT_THAT(slow_forms(graph), IsEmpty());  // a pass, or few queries, make it attend_mix
    }
  }
}

TEST(SlowForms, OfTriangularSolvesAreThoseOfMoreThanATile) {
  for (const int T : {64, 65}) {
    MemoryMeasure measure;
    Graph<float> graph(Device::cuda, 1, true);
    Solve<float> op;
    op.a = in(graph.variable({2, 1, 5, T})), op.l = in(graph.variable({2, 1, T, T}));
    graph.add(op);
    EXPECT_EQ(slow_forms(graph).size(), T > 64 ? 1u : 0u);
  }
}

TEST(SlowForms, OfMesaAreThoseOfWideKeysAndValues) {
  for (const auto& [K, V, why] : {std::tuple{160, 64, "160 key channels a head are more than 128"},
                                  {64, 192, "192 values a head are more than 128"}}) {
    MemoryMeasure measure;
    Graph<float> graph(Device::cuda, 1, true);
    RidgeRead<float> op;
    op.device = Device::cuda;
    op.q = in(graph.variable({2, 64, 1, K})), op.k = in(graph.variable({2, 64, 1, K}));
    op.v = in(graph.variable({2, 64, 1, V})), op.ridge = in(graph.variable({2, 1, 1, K}));
    graph.add(op);
    EXPECT_THAT(slow_forms(graph), ElementsAre(std::string("ridge_read walks token after token: ") + why));
  }
}

TEST(SlowForms, OfConvolutionsAreThoseOfVeryManyProducts) {
  for (const int C : {128, 8192}) {
    MemoryMeasure measure;
    Graph<float> graph(Device::cuda, 1, true);
    LongConv<float> op;
    op.x = in(graph.variable({256, 256, C})), op.h = in(graph.variable({256, C}));
    graph.add(op);
    if (C == 128) {
      EXPECT_THAT(slow_forms(graph), IsEmpty());
    } else {
      EXPECT_THAT(slow_forms(graph),
                  ElementsAre("long_conv adds up 256^2 / 2 products of each of 2097152 channels"));
    }
  }
}

// Where the build has no forms, or CROSSTALK_WITHOUT_FORMS takes them away, every op is slow, and the sentence says why.
/// A network with hidden units, of 2 sequences of 32 tokens.
std::vector<std::string> of_network(int K, int mini_batch) {
  MemoryMeasure measure;
  Graph<float> graph(Device::cuda, 1, true);
  NetworkRead<float> op;
  op.device = Device::cuda, op.hidden = 4 * K, op.mini_batch = mini_batch;
  for (In<float>* x : {&op.q, &op.k, &op.v}) *x = in(graph.variable({2, 32, 1, K}));
  op.step = in(graph.variable({2, 32, 1, 1}));
  graph.add(op);
  return slow_forms(graph);
}
constexpr const char* kWithout =
    "this program is without its faster forms (kernels/fused, CROSSTALK_WITHOUT_FORMS)";
TEST(SlowFormsForCuda, OfNetworksAreThoseOfSmallAndLargeMiniBatches) {
  if (known_forms<NetworkRead<float>>().empty()) {
    for (const int mini_batch : {1, 16})
      EXPECT_THAT(of_network(64, mini_batch), ElementsAre(EndsWith(kWithout)));
  } else {
    EXPECT_THAT(of_network(64, 16), IsEmpty());
    EXPECT_THAT(of_network(64, 1), ElementsAre(::testing::HasSubstr("every mini-batch of one token")));
  }
  EXPECT_THAT(of_network(64, 32), ElementsAre(::testing::HasSubstr("more than 16 tokens")));
  EXPECT_THAT(of_network(6, 16), ElementsAre(::testing::HasSubstr("no multiples of 4")));
}
TEST(SlowFormsForCuda, OfTheFastWeightMemoryAreThoseOfWideStates) {
  for (const int K : {64, 128}) {
    MemoryMeasure measure;
    Graph<float> graph(Device::cuda, 1, true);
    FwmRead<float> op;
    op.device = Device::cuda;
    for (In<float>* x : {&op.q, &op.k, &op.v}) *x = in(graph.variable({2, 32, 2, K}));
    op.beta = in(graph.variable({2, 32, 2}));
    graph.add(op);
    if (K == 128) {
      EXPECT_THAT(slow_forms(graph), ElementsAre(EndsWith("128 key features a head are more than 64")));
    } else if (known_forms<FwmRead<float>>().empty()) {
      EXPECT_THAT(slow_forms(graph), ElementsAre(EndsWith(kWithout)));
    } else {
      EXPECT_THAT(slow_forms(graph), IsEmpty());
    }
  }
}

class SlowFormsOnCuda : public CudaTest {};

TEST_F(SlowFormsOnCuda, AreThoseThatRecordsName) {
  for (const Shape& s :
       {Shape{}, Shape{.K = 128, .V = 128}, Shape{.V = 160}, Shape{.K = 256, .erase = Erase::none},
        Shape{.K = 256}, Shape{.one_variable = true}, Shape{.form = StateForm::recurrent}}) {
    const OnGpu<float> gpu(s);
    const bool is_slow = gpu.graph.forms() == "state_read:recurrent";
    EXPECT_EQ(slow_forms(gpu.graph).size(), is_slow ? 1u : 0u)
        << s.K << " " << s.V << ": " << gpu.graph.forms();
  }
}

}  // namespace crosstalk::checks::slow_forms_test
