// A memory whose shapes have a letter of their own: gated slot attention (Zhang et al. 2024, arXiv 2409.07146), two
// recurrences in series with a softmax over slots between them, declared here as a file of models/memories/ would.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/base/random.h"
#include "models/apply_model.h"
#include "models/build.h"
#include "models/memories/memory_file.h"
#include "models/testing/sequence.h"

namespace crosstalk::checks {
namespace {

Memory gated_slots() {
  return {
      .name = "gated_slots",
      .summary = "a softmax over slots, which fade as the token says",
      .does = "fades every slot at a rate of its own, and fills it by what it let go",
      .family = Family::adds,
      .equation =
          "A_t = Diag(alpha_t) A_{t-1} + (1 - alpha_t) k_t^T, C_t = C_{t-1} Diag(alpha_t) + v_t (1 - alpha_t)^T, o = C softmax(A q)",
      .laws = "alpha_t = sigmoid(W token + b)^(1/16)",
      .source = "Zhang et al. 2024, arXiv 2409.07146",
      .options = {{.name = "slots",
                   .default_value = 64,
                   .help = "rows of A and columns of C",
                   .min = 1,
                   .max = 4096,
                   .tried = {2, 5}}},
      .inputs = {{.name = "log_decay", .per = Per::other, .shape = "[B,T,H,S]", .symbol = "log alpha"}},
      .states = {"A", "C"},
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return o.get_int("memory.slots") * (K + V); },
      .letters = {{'S', "slots"}},
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const int slots = m.integer("slots");
            const auto g =
                m.input("log_decay", [&] { return (1.0 / 16) * log_sigmoid(m.token("decay", slots)); });
            const auto filled = 1.0 - exp(g);
            const auto weights =
                softmax(read(m, q, {.key = k, .value = filled, .value_log_decay = g, .state = "A"}));
            return read(m, weights, {.key = filled, .log_decay = g, .state = "C"});
          }};
}

const ApplySizes kSizes = {.B = 2, .T = 7, .H = 2, .K = 3, .V = 4};
constexpr int kSlots = 5;

struct Slots {
  Memory memory = gated_slots();
  ApplySizes sizes = with_letters(memory, kSizes, {{"slots", std::int64_t{kSlots}}});
  Options options = apply_options(memory, sizes, {{"slots", std::int64_t{kSlots}}});
  ApplyModel<double> model{memory, options, sizes, {}, Device::cpu, true};

  Slots() {
    std::uint32_t stream = 0;
    for (const ApplyInput& input : apply_inputs(memory, sizes)) {
      if (input.optional) continue;
      RandomStream random(3, RandomDomain::initialisation, stream++);
      const Tensor<double> x = model.input(input.name);
      for (std::int64_t i = 0; i < x.size(); ++i)
        x.at(0)[i] =
            input.name == "log_decay" ? -1.5 * random.uniform() : normal_from_uniform(random.uniform());
    }
    RandomStream random(4, RandomDomain::initialisation, 0);
    for (std::int64_t i = 0; i < model.cotangent().size(); ++i)
      model.cotangent().at(0)[i] = normal_from_uniform(random.uniform());
  }
  /// Row t of head h of sequence b.
  Vector row(const char* input, int columns, int b, int t, int h) {
    const double* at = model.input(input).at(0) + ((b * kSizes.T + t) * kSizes.H + h) * columns;
    return {at, at + columns};
  }
  double loss() {
    model.graph().forward({});
    double sum = 0;
    for (std::int64_t i = 0; i < model.output().size(); ++i)
      sum += model.output().at(0)[i] * model.cotangent().at(0)[i];
    return sum;
  }
};

TEST(Letters, AreOptionsOfTheMemory) {
  const Memory memory = gated_slots();
  const auto shape = [&](const std::map<std::string, OptionValue>& given) {
    for (const ApplyInput& input : apply_inputs(memory, with_letters(memory, kSizes, given))) {
      if (input.name == "log_decay") return input.dims;
    }
    return std::vector<int>();
  };
  EXPECT_EQ(shape({}), (std::vector<int>{2, 7, 2, 64}));
  EXPECT_EQ(shape({{"slots", 5}}), (std::vector<int>{2, 7, 2, 5}));
}

TEST(Letters, AreRefusedWhereTheyAreTakenOrMeanNothing) {
  for (const std::map<char, std::string>& letters :
       {std::map<char, std::string>{{'K', "slots"}}, {{'S', "no_such_option"}}, {}}) {
    Memory memory = gated_slots();
    memory.letters = letters;
    EXPECT_THROW(apply_inputs(memory, kSizes), MemoryError);
  }
}

TEST(Letters, AMemoryReadsByThem) {
  Slots slots;
  slots.loss();
  for (int b = 0; b < kSizes.B; ++b) {
    for (int h = 0; h < kSizes.H; ++h) {
      Matrix keys = zeros(kSlots, kSizes.K), values = zeros(kSlots, kSizes.V);
      for (int t = 0; t < kSizes.T; ++t) {
        const Vector alpha = exponential(slots.row("log_decay", kSlots, b, t, h));
        Vector logits;
        for (std::size_t i = 0; i < kSlots; ++i) {
          keys[i] = plus(scaled(alpha[i], keys[i]), 1 - alpha[i], slots.row("k", kSizes.K, b, t, h));
          values[i] = plus(scaled(alpha[i], values[i]), 1 - alpha[i], slots.row("v", kSizes.V, b, t, h));
          logits.push_back(dot(keys[i], slots.row("q", kSizes.K, b, t, h)));
        }
        const Vector want = softmax_average(logits, values, 0, kSizes.V);
        for (int v = 0; v < kSizes.V; ++v)
          EXPECT_NEAR(slots.model.output().at(0)[((b * kSizes.T + t) * kSizes.H + h) * kSizes.V + v],
                      want[static_cast<std::size_t>(v)], 1e-12);
      }
    }
  }
}

TEST(Letters, GradientsAreThoseOfDifferences) {
  Slots slots;
  slots.loss();
  slots.model.graph().backward({});
  for (const char* name : {"q", "k", "v", "log_decay"}) {
    const Tensor<double> x = slots.model.input(name);
    const Vector gradient(slots.model.gradient(name).at(0), slots.model.gradient(name).at(0) + x.size());
    for (std::int64_t i = 0; i < x.size(); i += 3) {
      constexpr double step = 1e-5;
      const double kept = x.at(0)[i];
      x.at(0)[i] = kept + step;
      const double above = slots.loss();
      x.at(0)[i] = kept - step;
      const double below = slots.loss();
      x.at(0)[i] = kept;
      EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], (above - below) / (2 * step), 1e-8)
          << name << " " << i;
    }
  }
}

// The algebra of gates: softmax is what its parts make, the largest taken off.
TEST(Algebra, SoftmaxIsThatOfItsParts) {
  Graph<double> graph(Device::cpu, 1, false);
  Variable<double>* leaf = graph.variable({1, 2, 3, 4}, false);
  const Var<double> x{&graph, leaf};
  const Var<double> fine = softmax(x), powers = exp(x - maximum(x)),
                    parts = powers * map(MapKind::reciprocal, fold(powers, {1, 2, 3, 1}));
  graph.keep(fine.variable), graph.keep(parts.variable);
  graph.plan();
  RandomStream random(5, RandomDomain::initialisation, 0);
  for (int i = 0; i < 24; ++i) leaf->value.at(0)[i] = 700 * random.uniform();
  graph.forward({});
  for (int i = 0; i < 24; ++i)
    EXPECT_NEAR(fine.variable->value.at(0)[i], parts.variable->value.at(0)[i], 1e-15) << i;
}

}  // namespace
}  // namespace crosstalk::checks
