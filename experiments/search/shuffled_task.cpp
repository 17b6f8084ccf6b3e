// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/shuffled_task.h"

#include <vector>

#include "experiments/training/training.h"

namespace crosstalk::search {
namespace {

/// The other sequence of number n is n + this, which no training reaches.
constexpr std::uint64_t kFarAway = std::uint64_t{1} << 40;

class ShuffledTask final : public Task {
 public:
  explicit ShuffledTask(std::unique_ptr<Task> task) : task_(std::move(task)) {}

  Vocabulary vocabulary() const override { return task_->vocabulary(); }
  SequenceShape shape(Split split, int max_queries) const override {
    return task_->shape(split, max_queries);
  }
  int scratch_size() const override { return task_->scratch_size(); }
  std::int32_t reference_answer(const SequenceView&, std::int32_t, int) const override { return -1; }
  std::map<std::string, double> baselines() const override { return task_->baselines(); }
  std::string to_text(const SequenceView& sequence) const override { return task_->to_text(sequence); }
  std::unique_ptr<Task> lengthened(int factor) const override {
    return std::make_unique<ShuffledTask>(task_->lengthened(factor));
  }
  int eval_load() const override { return task_->eval_load(); }

  void sequence(std::uint64_t data_seed, Split split, std::uint64_t n, const SequenceView& out,
                std::int32_t* scratch) const override {
    const auto T = static_cast<std::size_t>(out.shape.T * out.shape.C),
               Q = static_cast<std::size_t>(out.shape.Q);
    std::vector<std::int32_t> tokens(T), query(Q), position(Q), target(Q);
    task_->sequence(
        data_seed, split, n + kFarAway,
        {out.shape, tokens.data(), nullptr, query.data(), position.data(), target.data(), nullptr}, scratch);
    task_->sequence(data_seed, split, n, out, scratch);
    std::erase(target, -1);
    for (std::size_t q = 0; q < Q; ++q)
      if (out.target[q] >= 0 && !target.empty()) out.target[q] = target[q % target.size()];
  }

 private:
  std::unique_ptr<Task> task_;
};

}  // namespace

std::unique_ptr<Task> shuffled_task(const Options& config) {
  return std::make_unique<ShuffledTask>(registered_task(config));
}

}  // namespace crosstalk::search
