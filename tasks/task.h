// A task: batches as pure functions of (options, data seed, split, sequence number).
//
// To add a task: NAME_sequence.h (the generator), NAME.cpp (a class that derives from Task, and kind() in namespace NAME_task)
// and NAME_test.cpp in tasks/kinds/; the build makes the registry from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/exec.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

/// Disjoint families of sequences. Training draws the task's training queries; eval and test ask every query.
enum class Split : std::uint32_t { train, eval, test };

/// Where a batch goes and which sequences it holds. Sequence b of replica r is number counter[r] * stride +
/// offset + b of `split`, drawn with data seed seed[r]. All tensors lie on the device that draws.
struct DrawArgs {
  Split split = Split::train;
  SequenceShape shape;
  int B = 0;  ///< sequences a replica
  std::int64_t stride = 0, offset = 0;
  Tensor<std::int32_t> seed;                             ///< [R,2] low and high word
  Tensor<std::int32_t> counter;                          ///< [R,1]
  Tensor<std::int32_t> tokens, query, position, target;  ///< [R,B,T,C], [R,B,Q] each
  Tensor<std::int32_t> scratch;  ///< [R,B,scratch_size() + 1] on CUDA; absent on the CPU

  CT_HD std::uint64_t data_seed(int r) const {
    const auto* words = reinterpret_cast<const std::uint32_t*>(seed.at(r));
    return words[0] | (static_cast<std::uint64_t>(words[1]) << 32);
  }
  /// Number of sequence b of replica r.
  CT_HD std::int64_t number(int r, std::int64_t b) const { return *counter.at(r) * stride + offset + b; }
  /// Where it goes.
  CT_HD SequenceView view(int r, std::int64_t b) const {
    const std::int64_t q = b * shape.Q;
    return {shape,
            tokens.at(r) + b * shape.T * shape.C,
            nullptr,
            query.at(r) + q,
            position.at(r) + q,
            target.at(r) + q,
            nullptr};
  }
};

class Task;

/// A part of a task that is made of sequences of several lengths or loads: a task of its own with the same
/// vocabulary, and no segments.
struct TaskSegment {
  std::string name;  ///< short and printable: "64:4", "L=32"
  std::shared_ptr<const Task> task;
  std::int64_t sequences = 0;  ///< its share: sequences of it in an epoch
};

/// A value that a sequence gives to a key.
struct KeyWrite {
  std::int32_t position = 0;        ///< tokens after which it holds
  std::int32_t context = 0;         ///< where keys mean something in contexts; else 0
  std::int32_t key = 0, value = 0;  ///< as asked_key() and `target` of a SequenceView name them
};

/// One task with resolved options. Immutable and thread-safe.
class Task {
 public:
  virtual ~Task() = default;

  virtual Vocabulary vocabulary() const = 0;

  /// Sizes of a sequence of `split`. `max_queries` caps Q in eval and test (0 = all).
  virtual SequenceShape shape(Split split, int max_queries = 0) const = 0;

  /// Writes sequence `n` of `split` into `out`, whose shape must be shape(split, m) for some m; every element
  /// is written (unused query slots: query 0, query_position 0, target -1, meta 0). `scratch` holds
  /// scratch_size() ints.
  virtual void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                        std::int32_t* scratch) const = 0;
  virtual int scratch_size() const = 0;

  /// How many different sequences a split has; 0 = no end. Those of training may come in another order in each
  /// epoch; those of eval and test are numbered 0 .. sequences - 1, and from there on begin again.
  virtual std::int64_t sequences(Split) const { return 0; }

  /// What a split is a mixture of; empty: one kind of sequence, this task's. An epoch of training is all
  /// segments one after the other; evaluation means over the segments, each counted by its sequences.
  virtual std::vector<TaskSegment> segments(Split) const { return {}; }
  /// A curriculum: tasks that training goes through, each until it is learned; empty: none. This task is the
  /// last of them.
  virtual std::vector<TaskSegment> stages() const { return {}; }

  /// To be called by the thread that draws, before its first draw on `device` and outside of captured graphs: brings there
  /// what draws read.
  virtual void prepare(Device) const {}

  /// Draws a batch on the device of `exec`: the same integers on every device.
  void draw(const Exec& exec, const DrawArgs& args) const;

  /// Reference machine: the value bound to `key` after the first `position` tokens of `sequence`, replayed
  /// from the tokens alone in the most obvious way; -1 if none. Slow; for tests and samples.
  virtual std::int32_t reference_answer(const SequenceView& sequence, std::int32_t key,
                                        int position) const = 0;

  /// What a sequence with roles writes, in order, for those who look at wrong answers. Here: its tokens with a value; of single
  /// tokens that may all be answers, the pairs of tokens whose role is `write`. Empty where keys have no values.
  virtual std::vector<KeyWrite> writes(const SequenceView& sequence) const;
  /// Which key query slot q asks, as `writes` names keys. Here: `query`, where that is a key.
  virtual std::int32_t asked_key(const SequenceView& sequence, int q) const { return sequence.query[q]; }
  /// In which context query slot q asks its key.
  virtual std::int32_t context_of(const SequenceView&, int /*q*/) const { return 0; }

  /// Numbers to hold results against, by name, for the eval split: "chance_accuracy" (uniform over values
  /// that can be right), "constant_loss" (predict the zero vector: 0.5), "baseline_<shortcut>_accuracy"
  /// (measured on 256 eval sequences of data seed 0: "most_recent" value, "random_in_context", "first"
  /// value), and theory where it exists
  /// ("sum_rule_floor": 0.5 (1 - E[1/m]), tasks with overwriting). Deterministic.
  virtual std::map<std::string, double> baselines() const = 0;

  /// Lines that a person can read: the tokens in order, then each query with its answer.
  virtual std::string to_text(const SequenceView& sequence) const = 0;

  /// The same task with sequences `factor` times as long in eval and test (more associations or operations,
  /// same vocabulary). Throws OptionError("eval.length_factors", ...) where the task has no longer form.
  virtual std::unique_ptr<Task> lengthened(int factor) const = 0;

  /// The same sequences of eval and test, with targets that are right for another context: the value of the same key there.
  /// What a trained model scores on it, taken from what it scores on this task, is 0 where it is blind to contexts. nullptr:
  /// the task has no contexts.
  virtual std::unique_ptr<Task> confused() const { return nullptr; }

  /// Whether a sequence is text, whose every token has the next one as its answer: a loss in nats is then one in bits too.
  virtual bool is_text() const { return false; }

  /// Length that figures put on an axis for the eval split: written associations (recall, reassign) or
  /// operations (swap).
  virtual int eval_load() const = 0;

 private:
  /// The CUDA version of draw(), one thread a sequence. Throws DeviceError where a task has none.
  virtual void draw_cuda(const Exec& exec, const DrawArgs& args) const;
};

/// A registered kind of task.
struct TaskKind {
  std::string name;
  std::string summary;      ///< one line
  std::string description;  ///< a paragraph: what is stored, asked, right; the source (paper, section)
  std::vector<OptionSpec> options;  ///< under "task."; does not include "name"
  /// Fills derived options ("task.keys" = 0 -> associations, ...) in place; throws OptionError for what makes
  /// no sense.
  void (*resolve)(Options& options) = nullptr;
  /// Needs resolved options.
  std::unique_ptr<Task> (*make)(const Options& options) = nullptr;
  /// False: the sequences are given, and a data seed only decides the order of those of training.
  bool drawn = true;
};

/// All tasks, by name. Generated from the files of tasks/.
const std::vector<TaskKind>& task_kinds();

/// nullptr if there is no such task.
const TaskKind* find_task(const std::string& name);

}  // namespace crosstalk
