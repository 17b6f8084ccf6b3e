// The retrieval model reads the same whichever form computes its memory, and learns the same: outputs and gradients of
// all parameters, form against form.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/compare.h"
#include "models/engines.h"
#include "models/testing/model_run.h"
#include "models/testing/variants.h"

namespace crosstalk::checks::forms_test {

class MemoryForms : public ::testing::TestWithParam<std::string> {};

TEST_P(MemoryForms, ReadTheSameInAModel) {
  const Memory& kind = *find_memory(GetParam());
  for (const int queries : {1, 3}) {
    const ModelShape shape{kKeys, kValues, true, kB, {kT, 3, queries}};
    Options options = resolved(kind, memory_options(kind, 4, kKeys, kValues, kEmbedding));
    if (!options.has("memory.form")) {
      GTEST_SKIP() << "it has one form";
    }
    const Example example = find_example(options, shape, 61);
    const auto run_of = [&](const std::string& form) {
      options.set("memory.form", form);
      auto run = std::make_unique<ModelRun<double>>(options, shape, 1, true);
      give(*run, 0, example);
      run->forward();
      run->backward();
      return run;
    };
    const auto want = run_of("recurrent");
    for (const std::string& form : form_names()) {
      SCOPED_TRACE(fmt::format("{}, {} queries", form, queries));
      std::unique_ptr<ModelRun<double>> got;
      try {
        got = run_of(form);
      } catch (const OptionError& error) {
        EXPECT_EQ(error.key, "memory.form");  // this form does not cover it
        continue;
      }
      const std::int64_t outputs = std::int64_t{kB} * queries * kValues;
      const double peak = std::max(1.0, magnitude(want->y(0, 0, 0), outputs));
      ASSERT_TRUE(close("y", got->y(0, 0, 0), want->y(0, 0, 0), outputs, 1e-12 * peak));
      const auto &a = got->model.parameters(), &b = want->model.parameters();
      for (int i = 0; i < a.count(); ++i) {
        const auto gradient = b.gradient(i);
        const double scale = std::max(peak, magnitude(gradient.at(0), gradient.size()));
        ASSERT_TRUE(close("gradient of " + a.name(i), a.gradient(i).at(0), gradient.at(0), gradient.size(),
                          1e-11 * scale));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryForms, every_memory(), memory_name);

}  // namespace crosstalk::checks::forms_test
