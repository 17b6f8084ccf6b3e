// Language models of every memory, planned for GPUs of any shared memory where there is none: no pass makes a tensor of a format
// that one of its readers refuses at that size.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/testing/shared_limit.h"
#include "models/testing/language.h"

namespace crosstalk::checks::limits_plan_test {

struct Shape {
  int width, heads, T, Q;
};

class PlannedForAGpu : public ::testing::TestWithParam<std::string> {};

TEST_P(PlannedForAGpu, InAnySharedMemory) {
  const Memory& kind = *find_memory(GetParam());
  int planned = 0;
  for (const Shape& s : {Shape{64, 1, 150, 150}, {64, 2, 40, 9}, {128, 1, 70, 9}, {256, 2, 150, 150}})
    for (const bool published : {false, true}) {
      if (published && !kind.published) continue;
      const ModelShape shape{0, 100, false, 64, {s.T, 1, s.Q}, 100};
      Settings settings = {{"model.width", std::int64_t{s.width}},
                           {"model.heads", std::int64_t{s.heads}},
                           {"model.mlp", "swiglu"},
                           {"model.layers", 2}};
      if (published) settings.insert(settings.end(), kind.published.set.begin(), kind.published.set.end());
      const Options options = language_options_of(GetParam(), settings, shape.vocabulary());
      for (const int kib : {99, 163, 227}) {
        SCOPED_TRACE(fmt::format("{} KiB: width {}, {} heads, {} tokens, {} answers{}", kib, s.width, s.heads,
                                 s.T, s.Q, published ? ", published layer" : ""));
        const SharedLimit limit(kib);
        const MemoryMeasure measure;
        EXPECT_NO_THROW({
          const auto model = make_model<float>(options, shape.vocabulary(), Device::cuda, 1, Precision::bf16);
          planned += model->graph(shape.B, shape.sequence, true)->graph.bytes() > 0;
        });
      }
    }
  EXPECT_EQ(planned, kind.published ? 24 : 12);
}

INSTANTIATE_TEST_SUITE_P(Registry, PlannedForAGpu, every_memory(), memory_name);

}  // namespace crosstalk::checks::limits_plan_test
