// Shapes with a letter of the memory's own: those of gated slot attention (gsa), whose rows of keys and columns of values are slots.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/base/random.h"
#include "models/apply_model.h"
#include "models/build.h"
#include "models/memories/memory_file.h"

namespace crosstalk::checks::slots_test {

const ApplySizes kSizes = {.B = 2, .T = 7, .H = 2, .K = 3, .V = 4};

TEST(Letters, AreOptionsOfTheMemory) {
  const Memory& memory = memory_named("gsa");
  const auto shape = [&](const std::map<std::string, OptionValue>& given) {
    for (const ApplyInput& input : apply_inputs(memory, with_letters(memory, kSizes, given)))
      if (input.name == "log_decay") return input.dims;
    return std::vector<int>();
  };
  EXPECT_EQ(shape({}), (std::vector<int>{2, 7, 2, 64}));
  EXPECT_EQ(shape({{"slots", 5}}), (std::vector<int>{2, 7, 2, 5}));
}

TEST(Letters, AreRefusedWhereTheyAreTakenOrMeanNothing) {
  for (const std::map<char, std::string>& letters :
       {std::map<char, std::string>{{'K', "slots"}}, {{'S', "no_such_option"}}, {}}) {
    Memory memory = memory_named("gsa");
    memory.letters = letters;
    EXPECT_THROW(apply_inputs(memory, kSizes), MemoryError);
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

}  // namespace crosstalk::checks::slots_test
