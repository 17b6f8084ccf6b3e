// The table of synonyms against the registries: nothing that a message suggests may be missing.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiments/common/command.h"
#include "experiments/program/help/topics.h"
#include "experiments/study/schema.h"
#include "models/memory.h"
#include "plots/figure.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

std::vector<std::string> registered() {
  std::set<std::string> names = {"eval_accuracy", "test_accuracy"};  // metrics of records, beside the columns
  const auto add_choices = [&](const std::vector<OptionSpec>& specs) {
    for (const OptionSpec& spec : specs) names.insert(spec.choices.begin(), spec.choices.end());
  };
  const Schema& schema = default_schema();
  for (const std::string& key : schema.keys()) names.insert(key);
  for (const SchemaTask& task : schema.tasks) names.insert(task.name), add_choices(task.options);
  for (const auto& memory : schema.memories) names.insert(memory.name), add_choices(memory.options);
  for (const auto* specs : {&schema.model, &schema.train, &schema.eval}) add_choices(*specs);
  for (const FeatureMapInfo& map : feature_map_infos()) names.insert(map.name);
  for (const Command* command : commands()) names.insert(command->name);
  for (const Topic& column : columns()) names.insert(column.name);
  return {names.begin(), names.end()};
}

TEST(Synonyms, PointToWhatThereIs) {
  const std::vector<std::string> names = registered();
  for (const Synonym& synonym : synonyms())
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), synonym.ours)) << synonym.ours;
}

TEST(Synonyms, OfPapersLeadToTheirMemories) {
  const std::vector<std::string> memories = default_schema().memory_names();
  const std::vector<std::pair<const char*, const char*>> wanted = {{"DeltaNet", "deltanet"},
                                                                   {"Mamba", "mamba2"},
                                                                   {"RetNet", "retnet"},
                                                                   {"attention", "softmax"},
                                                                   {"transformer", "softmax"},
                                                                   {"Gated DeltaNet", "gated_delta"},
                                                                   {"GLA", "gla"},
                                                                   {"xLSTM", "mlstm"},
                                                                   {"RWKV-7", "rwkv7"},
                                                                   {"MesaNet", "mesa"},
                                                                   {"Kimi Delta Attention", "kda"},
                                                                   {"TTT-Linear", "ttt_linear"}};
  for (const auto& [name, ours] : wanted) EXPECT_EQ(nearest_name(name, memories), ours) << name;
}

}  // namespace
}  // namespace crosstalk::program
