// What the best answer without the order of writes costs on the very sequences that a run was evaluated on.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/evaluated_floor.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "experiments/training/evaluator.h"
#include "experiments/training/memory_facts.h"
#include "results/numbers/select.h"
#include "results/numbers/theory.h"
#include "tasks/sequence_buffer.h"
#include "tasks/task.h"

namespace crosstalk {
namespace {

constexpr double kMostSequences = 1 << 20;  // a number in somebody's table may be any

/// The task that the configuration describes; nullptr where it describes none.
std::unique_ptr<Task> task_of(const Record& record) {
  const TaskKind* kind = find_task(config_text(record, "task.name").value_or(""));
  if (kind == nullptr) return nullptr;
  Options options;
  try {
    for (const OptionSpec& spec : kind->options) {
      const std::string key = "task." + spec.name;
      const nlohmann::json* found = record.config.find(key);
      if (found == nullptr) continue;
      const OptionValue value = found->is_string()           ? OptionValue(found->get<std::string>())
                                : found->is_boolean()        ? OptionValue(found->get<bool>())
                                : found->is_number_integer() ? OptionValue(found->get<std::int64_t>())
                                                             : OptionValue(found->get<double>());
      options.set(key, check_option(spec, "task", value));
    }
    fill_defaults(options, "task", kind->options);
    if (kind->resolve != nullptr) kind->resolve(options);
    return kind->make(options);
  } catch (const std::exception&) {  // a table of somebody's
    return nullptr;
  }
}

/// Sum over the queries of a sequence of 0.5 |e_target - p|^2, where p is the mean of the values written to the
/// key; `asked` counts them.
double order_blind_loss(const SequenceView& sequence, const Vocabulary& vocabulary, std::int64_t& asked) {
  double sum = 0;
  std::vector<double> written(static_cast<std::size_t>(vocabulary.values));
  for (int q = 0; q < sequence.shape.Q; ++q) {
    if (sequence.target[q] < 0) continue;
    std::fill(written.begin(), written.end(), 0.0);
    double writes = 0;
    for (int t = 0; t < sequence.query_position[q]; ++t) {
      const std::int32_t* token = sequence.tokens + std::int64_t{t} * sequence.shape.C;
      if (token[channel_key] != sequence.query[q] || token[channel_value] < 0) continue;
      ++written[static_cast<std::size_t>(token[channel_value])];
      ++writes;
    }
    double squares = 0;
    for (const double count : written) squares += count * count;
    const double right = written[static_cast<std::size_t>(sequence.target[q])];
    if (writes > 0) sum += 0.5 * (1 - 2 * right / writes + squares / (writes * writes));
    ++asked;
  }
  return sum;
}

}  // namespace

std::optional<double> evaluated_sum_rule_floor(const Record& record, const std::string& metric) {
  if (metric != "eval_loss" && metric != "test_loss") return std::nullopt;
  if (!sum_rule_floor(record, memory_facts())) return std::nullopt;
  if (metric == "eval_loss" && config_text(record, "eval.protocol").value_or("uniform") != "uniform")
    return std::nullopt;
  const auto sequences = config_number(record, "eval.sequences");
  const double seed = config_number(record, "data_seed").value_or(static_cast<double>(record.seed));
  if (!sequences || !(*sequences >= 1 && *sequences <= kMostSequences) || !(seed >= 0 && seed < 0x1p53))
    return std::nullopt;
  const std::unique_ptr<Task> task = task_of(record);
  if (!task || task->vocabulary().tokens > 0 || task->vocabulary().numbers > 0) return std::nullopt;
  SequenceBuffer buffer(*task, metric == "eval_loss" ? Split::eval : Split::test, 0, false);
  double sum = 0;
  std::int64_t asked = 0;
  for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(*sequences); ++n)
    sum += order_blind_loss(buffer.draw(static_cast<std::uint64_t>(seed), n), task->vocabulary(), asked);
  return asked > 0 ? std::optional(sum / static_cast<double>(asked)) : std::nullopt;
}

AnswersOf evaluated_answers() {
  const auto known = std::make_shared<std::map<std::string, std::optional<double>>>();
  return [known](const Record& record, const std::string& metric) -> std::optional<double> {
    const auto sequences = config_number(record, "eval.sequences");
    if (!sequences || !(*sequences >= 1 && *sequences <= kMostSequences)) return std::nullopt;
    const Split split = metric.starts_with("test") ? Split::test : Split::eval;
    std::string key = split == Split::test ? "test" : "eval";
    for (const auto& [name, value] : record.config)
      if (name.starts_with("task.") || name == "eval.sequences") (key += value.dump()).push_back('\n');
    const auto [place, is_new] = known->try_emplace(key);
    if (!is_new) return place->second;
    const std::unique_ptr<Task> task = task_of(record);
    if (!task) return std::nullopt;
    double answers = 0;
    for (const SplitPart& part : split_parts(*task, split, static_cast<int>(*sequences))) {
      const auto there = part.task->sequences(split);  // of files; 0: no end
      answers +=
          static_cast<double>(there > 0 ? std::min<std::int64_t>(there, part.sequences) : part.sequences) *
          part.task->shape(split).Q;
    }
    return place->second = answers;
  };
}

}  // namespace crosstalk
