// SPDX-License-Identifier: Apache-2.0
#include "tasks/token_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "tasks/fused_task.h"
#include "tasks/number_groups.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

constexpr std::size_t text_width = 100;

}  // namespace

std::string TokenTask::answer_word(std::int32_t answer) const { return fmt::format("{}", answer); }

std::string TokenTask::to_text(const SequenceView& sequence) const {
  std::vector<std::string> words;
  for (int t = 0; t < sequence.shape.T; ++t) words.push_back(word(sequence, t));
  for (int q = 0; q < sequence.shape.Q; ++q)
    if (sequence.target[q] >= 0)
      words[static_cast<std::size_t>(sequence.query_position[q] - 1)] +=
          "->" + answer_word(sequence.target[q]);
  std::string text, line;
  for (std::size_t t = 0; t < words.size(); ++t) {
    if (!line.empty() && line.size() + 1 + words[t].size() > text_width) {
      text += line + '\n';
      line.clear();
    }
    line += (line.empty() ? fmt::format("{:>6}: ", t + 1) : " ") + words[t];
  }
  return text + line + '\n';
}

std::map<std::string, double> TokenTask::baselines() const {
  std::map<std::string, double> sums;
  const std::vector<TaskSegment> parts = segments(Split::eval);
  if (!parts.empty()) {
    double all = 0;
    for (const TaskSegment& part : parts) {
      const double share = part.sequences > 0 ? static_cast<double>(part.sequences) : 1.0;
      all += share;
      for (const auto& [name, value] : part.task->baselines()) sums[name] += share * value;
    }
    for (auto& [name, value] : sums) value /= all;
    return sums;
  }
  std::int64_t queries = 0;
  each_of_baselines(*this, [&](const SequenceView& sequence) {
    for (int q = 0; q < sequence.shape.Q; ++q) {
      if (sequence.target[q] < 0) continue;
      ++queries;
      for (const auto& [name, probability] : shortcuts(sequence, q))
        sums["baseline_" + name + "_accuracy"] += probability;
    }
  });
  for (auto& [name, sum] : sums) sum /= static_cast<double>(queries);
  sums["chance_accuracy"] = 1.0 / answers();
  sums["chance_loss"] = std::log(static_cast<double>(answers()));
  return sums;
}

Vocabulary token_vocabulary(int tokens) { return token_vocabulary(tokens, tokens); }
Vocabulary token_vocabulary(int tokens, int answers) {
  return {.keys = 0, .values = answers, .second_key = false, .tokens = tokens};
}

OptionSpec examples_option() {
  return {"examples", 0, "sequences of an epoch of training, the same in each; 0 means no end", 0,
          1099511627776.0};
}
std::uint64_t examples_of(const Options& options) {
  return static_cast<std::uint64_t>(options.get_int("task.examples"));
}

std::vector<int> curriculum_of(const Options& options) {
  std::vector<int> sizes;
  for (const NumberGroup& group : number_groups("task.curriculum", options.get_string("task.curriculum"), 1,
                                                1, static_cast<std::int64_t>(max_option_size), "32 64 128"))
    sizes.push_back(narrow<int>(group.numbers[0], "task.curriculum"));
  return sizes;
}

void resolve_curriculum(Options& options, const std::string& size, std::int64_t standard) {
  const std::vector<int> sizes = curriculum_of(options);
  if (sizes.empty()) return;
  for (std::size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i] <= sizes[i - 1])
      throw OptionError("task.curriculum",
                        fmt::format("task.curriculum = \"{}\": {} follows {}; give rising sizes",
                                    options.get_string("task.curriculum"), sizes[i], sizes[i - 1]));
  const std::string key = "task." + size;
  const std::int64_t given = options.get_int(key);
  if (given != standard && given != sizes.back())
    throw OptionError(
        key, fmt::format("{} = {} contradicts task.curriculum, which ends with {}; leave {} out", key, given,
                         sizes.back(), key));
  options.set(key, std::int64_t{sizes.back()});
}

OptionSpec curriculum_option(const std::string& what) {
  return {
      "curriculum", "",
      fmt::format(
          "{} of the stages of a curriculum, rising, the last of them the task's own: \"32 64 128\"; empty means one stage",
          what)};
}

std::vector<OptionSpec> with_sizes(std::vector<OptionSpec> options, const std::string& what,
                                   std::int64_t shortest) {
  constexpr double most = 1 << 20;
  options.push_back({"shortest", shortest, "smallest size in training: " + what, 1, most});
  options.push_back({"longest", 40, "largest size in training", 1, most});
  for (const auto& [name, which] : {std::pair{"eval_shortest", "smallest"}, {"eval_longest", "largest"}})
    options.push_back(
        {name, 0, fmt::format("{} size in evaluation; 0 means as in training", which), 0, most});
  return options;
}

void resolve_sizes(Options& options) {
  for (const std::string size : {"shortest", "longest"})
    if (options.get_int("task.eval_" + size) == 0)
      options.set("task.eval_" + size, options.get_int("task." + size));
  refuse_above(options, "task.shortest", "task.longest");
  refuse_above(options, "task.eval_shortest", "task.eval_longest");
}

void check_sequence_shape(const Task& task, Split split, const SequenceView& out) {
  const SequenceShape full = task.shape(split);
  const bool queries_fit =
      split == Split::train ? out.shape.Q == full.Q : out.shape.Q >= 1 && out.shape.Q <= full.Q;
  if (out.shape.T != full.T || out.shape.C != full.C || !queries_fit)
    throw std::logic_error(
        fmt::format("[tasks] a sequence of T={} C={} Q={} was asked of a task with T={} C={} Q={}",
                    out.shape.T, out.shape.C, out.shape.Q, full.T, full.C, full.Q));
}

}  // namespace crosstalk
