// Options that a study gives and that change nothing, of all registries: refused with what would make them count, and taken where they do.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "experiments/study/study.h"
#include "results/test_refusal.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::checks {
namespace {

std::string read(const std::string& base, const std::string& memory, const std::string& grid = "",
                 const std::string& seeds = "[1]") {
  return crosstalk::testing::refusal_of<ConfigError>(
      [&] {
        parse_study("[study]\nname = \"test\"\nseeds = " + seeds + "\n[base]\n" + base + "\n[memories.m]\n" +
                        memory + "\n[[grid]]\nmemory = [\"m\"]\n" + grid,
                    "x.toml");
      },
      "read");
}

const std::string kRecall = "task.name = \"recall\"\ntask.associations = 4\n",
                  kTokens =
                      "task.name = \"mqar\"\ntask.length = 32\ntask.pairs = 4\nmodel.name = \"language\"\n"
                      "model.width = 8\n",
                  kSum = "name = \"linear_attention\"\n";

void expect(const std::string& told, const std::string& base, const std::string& memory,
            const std::string& grid = "", const std::string& seeds = "[1]") {
  const std::string found = read(base, memory, grid, seeds);
  const bool as_told = told == "read" ? found == told : found.find(told) != std::string::npos;
  EXPECT_TRUE(as_told) << found << "\nwhere this was due: " << told;
}

TEST(IdleOptions, OfMemories) {
  const std::string kernel = "name = \"kernel_attention\"\nkernel = ";
  expect(
      "memory.order has no effect with memory.kernel = \"exp\"; it is of the kernels taylor and power: choose that, or leave memory.order out",
      kRecall, kernel + "\"exp\"\norder = 3\n");
  expect("memory.order has no effect", kRecall, kernel + "\"exp\"\norder = 2\n");  // the default
  expect("memory.tau has no effect", kRecall, kernel + "\"power\"\ntau = 2\n");
  expect("memory.digits has no effect", kRecall, kernel + "\"power\"\ndigits = 2\n");
  expect("read", kRecall, kernel + "\"power\"\norder = 3\n");
  expect("read", kRecall, "name = \"deltaformer\"\nkappa2 = \"power\"\norder = 3\n");
  expect("memory.beta_max has no effect with memory.beta = \"one\"", kRecall,
         "name = \"deltaformer\"\nbeta = \"one\"\nbeta_max = 2\n");
  expect("memory.beta_on_write has no effect", kRecall,
         "name = \"deltaformer\"\nbeta = \"one\"\nbeta_on_write = true\n");
  expect("memory.rate_from has no effect with memory.decay = \"none\"; set memory.decay = \"mamba\" too",
         kRecall, "name = \"delta_product\"\nrate_from = 0.5\n");
  expect("read", kRecall, "name = \"delta_product\"\ndecay = \"mamba\"\nrate_from = 0.5\n");
  expect("memory.decay_start has no effect", kRecall,
         "name = \"complex_kda\"\ngate = \"signed_exp\"\ndecay_start = 1\n");
  expect("memory.nu has no effect with feature_map \"elu1\"; it belongs to feature_map \"dpfp\"", kRecall,
         kSum + "feature_map = \"elu1\"\nnu = 2\n");
  // Of a grid some cells use it: those that do not are one run, or refused where they would be two.
  const std::string kernels = "\"memory.kernel\" = [\"exp\", \"power\"]\n\"memory.order\" = ";
  expect("read", kRecall, kernel + "\"exp\"\n", kernels + "3\n");
  expect("memory.order has no effect with memory.kernel = \"exp\"", kRecall, kernel + "\"exp\"\n",
         kernels + "[2, 3]\n");
}

TEST(IdleOptions, OfModels) {
  expect("model.conv_width has no effect without a layer base_conv", kTokens + "model.conv_width = 4\n",
         kSum);
  expect("read", kTokens + "model.conv_width = 4\nmodel.stack = \"base_conv memory\"\n", kSum);
  expect("model.mlp_ratio has no effect without an MLP", kTokens + "model.mlp_ratio = 2\n", kSum);
  expect("read", kTokens + "model.mlp_ratio = 2\nmodel.mlp = \"gelu\"\n", kSum);
  expect("read", kTokens + "model.mlp_ratio = 2\n", kSum, "model.mlp = [\"none\", \"gelu\"]\n");
  expect("model.value_residual has no effect on the first layer",
         kTokens + "model.value_residual = true\nmodel.layers = 1\n", kSum);
  expect("read", kTokens + "model.value_residual = true\n", kSum);
  expect("model.short_conv_width has no effect without a convolution",
         kTokens + "model.short_conv_width = 4\n", kSum);
  expect("model.layers belongs to the language model", kRecall + "model.layers = 2\n", kSum);
  expect("model.biases names query twice", kTokens + "model.biases = \"query key -query\"\n", kSum);
}

TEST(IdleOptions, OfTraining) {
  expect("train.promote_accuracy has no effect on task recall, which has no stages",
         kRecall + "train.promote_accuracy = 0.9\n", kSum);
  expect("train.promote_accuracy has no effect", kRecall + "train.promote_accuracy = 0.99\n", kSum);
  expect("train.muon_rate belongs to train.optimizer = \"muon\"", kRecall + "train.muon_rate = 0.02\n", kSum);
  expect("eval.piece has no effect on test sequences of at most 32 tokens", kTokens + "eval.piece = 32\n",
         kSum);
  expect("read", kTokens + "eval.piece = 16\n", kSum);
  expect("eval.sequences has no effect with eval.protocol = \"schlag2021\", which takes 20",
         kRecall + "eval.sequences = 30\neval.protocol = \"schlag2021\"\n", kSum);
  expect("read", kRecall + "eval.sequences = 20\neval.protocol = \"schlag2021\"\n", kSum);
}

TEST(IdleOptions, OfFilesAndSeeds) {
  const testing::ExampleFolder folder, real;
  for (const char* split : {"train", "eval", "test"}) {
    testing::write_example(folder.path(), split, testing::example_files(7, 20, 8));
    testing::write_examples<double>(real.path(), split, 6, 5, 3, false);
  }
  const auto file = [](const testing::ExampleFolder& where) {
    return "task.name = \"file\"\neval.sequences = 6\ntask.folder = \"" + where.path() + "\"\n";
  };
  expect("task.keys has no effect on the examples of", file(real) + "task.keys = 3\n", kSum);
  expect("task.values has no effect on the examples of", file(real) + "task.values = 3\n", kSum);
  const std::string same = file(folder) + "init_seed = 3\ntask.order = ";
  expect(
      "3:1: init_seed is fixed, and task.order = \"file\" draws nothing, so 2 seeds would be 2 times the same training; "
      "set task.order = \"shuffled\", or give one seed",
      same + "\"file\"\n", kSum, "", "[1, 2]");
  expect(
      "task.order = \"file\" draws nothing, so 2 values of data_seed would be 2 times the same training; take one",
      same + "\"file\"\n", kSum, "[[grid]]\ndata_seed = [1, 2]\n");
  expect("read", same + "\"file\"\n", kSum);
  expect("read", same + "\"shuffled\"\n", kSum, "", "[1, 2]");
  expect("read", same + "\"file\"\n", kSum + "feature_map = \"favor\"\n", "", "[1, 2]");
}

}  // namespace
}  // namespace crosstalk::checks
