// Shape that nearly all tasks have: a generator NAME_sequence.h, its sizes in training and in evaluation, and one longer form.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"
#include "tasks/fused_task.h"
#include "tasks/token_task.h"

namespace crosstalk {

/// A task `Own` over `Base` (FusedTask, TokenTask, ExampleTask), whose sequences `kSequence` draws in `kScratchSize` integers.
template <class Own, class Base, auto kSequence, auto kScratchSize>
class DrawnTask : public Base {
 public:
  using Spec = decltype(spec_of(kSequence));

  SequenceShape shape(Split split, int max_queries) const override {
    SequenceShape shape = full_shape(split);
    if (split != Split::train) shape.Q = capped_queries(shape.Q, max_queries);
    return shape;
  }
  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    check_sequence_shape(*this, split, out);
    kSequence(of(split), data_seed, split, n, out, scratch);
  }
  int scratch_size() const override { return std::max(kScratchSize(spec_), kScratchSize(eval_)); }
  /// Of training what a Spec's `examples` says, if it has them; of others no end.
  std::int64_t sequences(Split split) const override {
    if constexpr (requires(Spec spec) { spec.examples; })
      if (split == Split::train) return static_cast<std::int64_t>(spec_.examples);
    return 0;
  }
  std::unique_ptr<Task> lengthened(int factor) const override {
    check_length_factor(factor);
    auto longer = std::make_unique<Own>(static_cast<const Own&>(*this));
    longer->lengthen(factor);
    return longer;
  }

 protected:
  template <class... Arguments>
  explicit DrawnTask(const Spec& spec, Arguments&&... of_base)
      : Base(std::forward<Arguments>(of_base)...), spec_(spec), eval_(spec) {}

  /// Sizes of a sequence of `split` that asks all that it may.
  virtual SequenceShape full_shape(Split split) const = 0;
  /// Makes eval_ that of sequences `factor` times as long, or throws OptionError("eval.length_factors", ...).
  virtual void lengthen(int factor) = 0;
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    draw_on_cuda(of(args.split), exec, args);
  }
  const Spec& of(Split split) const { return split == Split::train ? spec_ : eval_; }

  /// Stages of task.curriculum, the last of which is the task itself: resize(stage, size, part) makes the part-th from a copy.
  template <class Resize>
  void add_stages(const Options& options, const char* size_name, const Resize& resize) {
    const std::vector<int> sizes = curriculum_of(options);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto stage = std::make_shared<Own>(static_cast<const Own&>(*this));
      stage->stages_.clear();
      const auto part = static_cast<std::uint32_t>(i + 1 == sizes.size() ? 0 : i + 1);
      resize(*stage, sizes[i], part);
      stage->spec_.part = stage->eval_.part = part;
      this->stages_.push_back({fmt::format("{}={}", size_name, sizes[i]), std::move(stage), 0});
    }
  }

  Spec spec_, eval_;  ///< in training, and in evaluation
};

/// TaskKind::make of a class with one constructor.
template <class Own>
std::unique_ptr<Task> make(const Options& options) {
  return std::make_unique<Own>(options);
}

}  // namespace crosstalk
