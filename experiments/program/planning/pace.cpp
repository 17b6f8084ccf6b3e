// A step takes the time of its products, of what goes over its activations element by element, of its memories (as measured), and
// of its launches, which the runs of a pack share.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/pace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "experiments/training/foreign_memory.h"
#include "experiments/training/pack.h"
#include "models/mixers/language_options.h"
#include "models/mixers/probe_model.h"
#include "models/rules/rule_memory.h"
#include "results/csv.h"
#include "tasks/token_task.h"

namespace crosstalk::program {

extern const char* const kMeasuredSteps;  // benchmarks/memories_h100.csv, by CMakeLists.txt

namespace {

double number(const Options& config, const char* key) { return static_cast<double>(config.get_int(key)); }

/// Of benchmarks/memories.toml: tokens of a step, layers, heads, and answers over so many words.
constexpr double kBenchTokens = 65536, kBenchLayers = 2, kBenchHeads = 2, kBenchLength = 256,
                 kBenchAnswers = 64 * 256, kBenchWords = 8192;

constexpr double kElement =
    3e-11;  // seconds of a float that is read and written, forward and back, a few times

/// Seconds of what stands around the memories: products of the projections and MLPs, of the head, and what goes over activations
/// element by element. By the table of benchmarks/README.md, width 128 and 512 on an H200.
struct Frame {
  double projections = 0, head = 0, elements = 0;  ///< operations, operations, floats
  double seconds(bool single) const {
    return projections / (single ? 40e12 : 150e12) + head / (single ? 40e12 : 330e12) + elements * kElement;
  }
};

/// Seconds that a memory takes for a token in one head, by the size of its heads: as measured, the frame taken off.
using ByHeadSize = std::map<double, double>;

const std::map<std::string, ByHeadSize>& measured() {
  static const auto table = [] {
    std::map<std::string, ByHeadSize> by_memory;
    read_csv(kMeasuredSteps, "benchmarks/memories_h100.csv", [&](const CsvRow& row) {
      if (!row.has("ms")) return;
      const double width = row.number("width", "steps");
      const Frame frame{6 * kBenchTokens * kBenchLayers * 4 * width * width,
                        6 * kBenchAnswers * width * kBenchWords, kBenchTokens * kBenchLayers * width};
      const double seconds = 1e-3 * row.number("ms", "steps");
      by_memory[row.text("memory", "steps")][width / kBenchHeads] =
          std::max(0.1 * seconds, seconds - frame.seconds(false)) /
          (kBenchTokens * kBenchLayers * kBenchHeads);
    });
    return by_memory;
  }();
  return table;
}

double interpolated(const ByHeadSize& known, double size) {
  auto above = known.lower_bound(size);
  constexpr double kTile = 16;  // narrower heads take as wide tiles, down to this
  if (above == known.begin()) return above->second * std::min(1., size / kTile);
  if (above == known.end()) --above;
  const auto below = above == known.begin() ? above : std::prev(above);
  if (below == above) return above->second * size / above->first;
  const double slope = std::log(above->second / below->second) / std::log(above->first / below->first);
  return below->second * std::pow(size / below->first, std::max(1., slope));
}

/// Seconds of a token in one head of a memory; one that was never measured is as slow as the median of all.
double of_a_token(const std::string& memory, double head_size) {
  const auto& all = measured();
  if (const auto known = all.find(memory); known != all.end()) return interpolated(known->second, head_size);
  std::vector<double> seconds;
  for (const auto& [name, by_size] : all) seconds.push_back(interpolated(by_size, head_size));
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

/// Seconds of a step.
struct Step {
  double work = 0;     ///< of each run, when the GPU is full
  double launch = 0;   ///< of a pack, when the GPU is full
  double latency = 0;  ///< of a pack, alone
};

Step step_of(const Run& run) {
  const Options& config = run.config;
  const auto task = registered_task(config);
  const bool probe = is_probe(config), single = config.get_string("train.precision") != "bf16";
  const SequenceShape shape = task->shape(probe ? Split::eval : Split::train);
  const double T = shape.T, batch = number(config, probe ? "eval.sequences" : "train.batch"),
               tokens = batch * T;
  constexpr double kLaunch = 2.5e-6, kAlone = 8e-6;  // of a kernel
  if (config.get_string("model.name") != "language" || is_foreign(config)) {
    constexpr double kKernels = 12, kPace = 1e13, kOverPairs = 1.5e12;
    double work = work_of_step(run) / kPace;
    if (const Memory& memory = memory_of(config);
        !is_foreign(config) && memory.keeps_keys && memory.flops && !probe)
      work = std::max(
          work,
          batch * memory.flops(config, number(config, "model.d_key"), task->vocabulary().values, T, shape.Q) /
              kOverPairs);
    Step step{work, kKernels * kLaunch, kKernels * kAlone};
    if (!is_foreign(config) && memory_of(config).token_by_token) step.latency += 80e-6 * T;
    return step;
  }
  const double D = number(config, "model.width"), layers = number(config, "model.layers");
  const Frame frame{6 * tokens * language_weights(config),
                    6 * batch * shape.Q * D * task->vocabulary().values, tokens * layers * D};
  Step step{frame.seconds(single), 20 * kLaunch, 20 * kAlone};
  for (const LanguageLayer& layer : language_layers(config)) {
    step.launch += 20 * kLaunch;
    step.latency += 20 * kAlone;
    if (layer.conv) continue;
    const Memory& memory = memory_of(layer.options);
    const double heads = number(layer.options, "model.heads");
    const double size =
        (number(layer.options, "model.d_key") + number(layer.options, "model.d_value")) / 2 / heads;
    double seconds = of_a_token(memory.name, size) * heads;
    const double writes = layer.options.has("memory.writes") ? number(layer.options, "memory.writes") : 1;
    // Convolutions, gates and norms around a memory go over its keys and values.
    if (layer.options.get_string("model.short_conv") != "none" ||
        layer.options.get_string("model.out_gate") != "none")
      step.work += tokens * 2 * writes * size * heads * 2 * kElement;
    seconds *= std::max(1., writes / 2);  // measured with two, where there are several
    if (memory.token_by_token) {          // its tokens wait for each other, however few sequences there are
      step.latency += seconds * kBenchTokens * T / kBenchLength;
      continue;
    }
    if (memory.keeps_keys) seconds *= std::max(0.5, T / kBenchLength);
    step.work += tokens * seconds * (single ? 2 : 1);
  }
  return step;
}

/// Runs that share a pack.
struct Packed {
  Step step;
  double runs = 0, steps = 0, most = 0;  ///< steps: of all runs
};

}  // namespace

double mean_size(const Options& config) {
  const bool staged = config.has("task.curriculum") && config.get_string("train.promote") == "schedule";
  const std::vector<int> sizes = staged ? curriculum_of(config) : std::vector<int>{};
  if (sizes.empty()) return 1;
  return std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(sizes.size()) / sizes.back();
}

double gpu_seconds(const std::vector<PacedRun>& runs) {
  std::map<std::string, Packed> packs;
  for (const PacedRun& one : runs) {
    const Options& config = one.run->config;
    const auto [place, is_new] = packs.try_emplace(pack_key(config));
    Packed& pack = place->second;
    if (is_new) pack.step = step_of(*one.run);
    const double every = std::max(1., number(config, "eval.every")),
                 batch = std::max(1., number(config, "train.batch"));
    const double evaluations =
        number(config, "eval.sequences") / batch / every / 3;  // in steps, for each step
    const double lengths = work_of_lengths(*one.run) / work_of_step(*one.run);
    const double steps = one.steps * mean_size(config) * (1 + std::min(1., evaluations)) + lengths;
    pack.runs += 1;
    pack.steps += steps;
    pack.most = std::max(pack.most, steps);
  }
  double side_by_side = 0, longest = 0;
  for (const auto& [key, pack] : packs) {
    const double replicas = std::min<double>(pack.runs, default_replicas);
    const double rounds = std::max(pack.most, pack.steps / replicas);
    constexpr double kPreparation = 0.1;
    side_by_side += kPreparation + pack.steps * pack.step.work + rounds * pack.step.launch;
    longest = std::max(longest, rounds * pack.step.latency + pack.steps * pack.step.work);
  }
  return std::max(side_by_side, longest);
}

}  // namespace crosstalk::program
