// A pack: runs of equal shapes, trained in lockstep as replicas of one model on one device.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/training/training.h"
#include "kernels/base/exec.h"
#include "tasks/task.h"

namespace crosstalk {

/// Equal for runs of equal shapes and evaluation schedules: seeds, learning rates and stop rules may differ.
std::string pack_key(const Options& config);

/// Estimated operations of a step; of a probe, which takes none: of its evaluation.
double work_of_step(const Run& run);
/// Of reading the trained model once at all of eval.length_factors.
double work_of_lengths(const Run& run);
/// Whether a run may end before train.max_steps: by its patience, or at a loss or an accuracy.
bool may_stop(const Options& config);
/// Steps of a run, for forecasts: train.max_steps, or 5,000 where it may stop before; of a probe 1.
double expected_steps(const Options& config);

/// Estimated operations of a run, for forecasts on any device; and with the overhead of small steps on a kind of device, for
/// the order of packs there (longest first).
double estimated_work(const Run& run);
double estimated_cost(const Run& run, Device device);

/// Weights of the projections and MLPs of a language model, without embedding and head.
double language_weights(const Options& config);
/// Floating-point operations of a training step of a language model: the products of its projections, MLPs and
/// head, and T x T attention in every layer.
double language_flops(const Options& config, const SequenceShape& shape, const Vocabulary& vocabulary);

/// How a pack is trained.
struct PackSettings {
  int slots = 1;  ///< replicas at a time, at most
  Device device = Device::cpu;
  double priority = 0;                                   ///< CUDA: of its stream, in [0, 1]
  std::function<int()> threads = [] { return 1; };       ///< OpenMP threads until the next evaluation
  std::function<int()> side_by_side = [] { return 1; };  ///< packs that share the device now, with this one
};

/// A run, and the state (RunState as text) that an earlier, stopped training left of it; empty: from the
/// start.
struct PackRun {
  Run run;
  std::string state;
};

/// Where a saved state stands: steps done, stages of a curriculum left. An empty one: at the start.
struct StatePlace {
  std::int64_t steps = 0;
  int stage = 0;
};
StatePlace place_of_state(const std::string& state);
inline std::int64_t steps_of_state(const std::string& state) { return place_of_state(state).steps; }

/// Trains `runs` (equal pack keys); a slot whose run has ended takes the next in phase (evaluation_schedule.h). Runs of a
/// curriculum that are promoted go on together when all have left their stage. Returns false if it was stopped. Throws
/// OutOfMemory when memory does not suffice, MisfitState for a state that is not of this model.
bool train_pack(const std::string& study, const std::vector<PackRun>& runs, const PackSettings& settings,
                TrainingClient& client, const TaskMaker& make_task = registered_task);

/// Memory of the device that train_pack() needs at most for runs of this configuration, from a stage of its curriculum on.
/// Makes all graphs, without memory.
std::size_t pack_bytes(const Options& config, int stage, int slots, Device device,
                       const TaskMaker& make_task = registered_task);

/// Which ops of such runs take their slow form on the calling thread's GPU, and why: a sentence each (models/graph/slow_forms.h).
/// Makes the graph of a training step, without memory; of a probe, which trains nothing, that of its evaluation.
std::vector<std::string> slow_forms_of(const Options& config, const TaskMaker& make_task = registered_task);

}  // namespace crosstalk
