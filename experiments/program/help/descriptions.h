// Descriptions of what the registries know: tasks, memories, feature maps, figures and their options, as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/text/options.h"
#include "models/memory.h"
#include "plots/figure.h"
#include "tasks/task.h"

namespace crosstalk::program {

struct Description {
  std::string text;
  nlohmann::ordered_json json;
};
Description describe(const TaskKind& kind);
Description describe(const Memory& kind);
Description describe(const FeatureMapInfo& info);
Description describe(const FigureKind& kind);

constexpr std::size_t kDescribedWidth = 96;  ///< of the text
/// Options as "prefix.name".
nlohmann::ordered_json option_json(const std::string& prefix, const OptionSpec& spec);
nlohmann::ordered_json options_json(const std::string& prefix, const std::vector<OptionSpec>& options);
std::string option_text(const std::string& prefix, const OptionSpec& spec);
std::string options_text(const std::string& prefix, const std::vector<OptionSpec>& options);

}  // namespace crosstalk::program
