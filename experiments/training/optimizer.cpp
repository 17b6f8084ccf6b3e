// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/optimizer.h"

#include <limits>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/optimizer/clip.h"

namespace crosstalk {

RateSchedule schedule_of(const Options& config, std::int64_t epoch) {
  const std::string& name = config.get_string("train.schedule");
  const std::int64_t steps = config.get_int("train.max_steps"), warmup = config.get_int("train.warmup_steps");
  RateSchedule schedule;
  schedule.warmup = narrow<std::int32_t>(warmup, "train.warmup_steps");
  schedule.least = config.get_double("train.least_rate");
  if (name == "one_cycle") schedule.cycle = narrow<std::int32_t>(steps, "train.max_steps");
  if (name == "cosine" && steps > warmup) {
    schedule.start = schedule.warmup;
    schedule.periods = narrow<std::int32_t>(steps - warmup, "train.max_steps");
  } else if (name == "cosine_epoch") {
    schedule.period = narrow<std::int32_t>(epoch, "steps of an epoch");
    schedule.periods = narrow<std::int32_t>((steps + epoch - 1) / epoch, "epochs");
  }
  return schedule;
}

template <class Real>
std::vector<int> hidden_matrices(const ParameterBlock<Real>& parameters) {
  std::vector<int> found;
  for (int i = 0; i < parameters.count(); ++i) {
    const std::string& name = parameters.name(i);
    if (parameters.value(i).rank == 2 && name.ends_with(".weight") && !name.ends_with(".conv.weight"))
      found.push_back(i);
  }
  return found;
}

template <class Real>
Optimizer<Real>::Optimizer(const Options& config, std::int64_t epoch, Replicas<Real>& replicas)
    : replicas_(replicas),
      every_(narrow<int>(config, "eval.every")),
      beta1_(config.get_double("train.beta1")),
      beta2_(config.get_double("train.beta2")),
      clip_norm_(config.get_double("train.clip_norm")),
      decays_(config.get_string("train.optimizer") != "adam"),
      schedule_(schedule_of(config, epoch)),
      arena_(replicas.device()),
      pieces_({{0, replicas.model().parameters().values().size()}}),
      momentum_(config.get_double("train.muon_momentum")),
      low_momentum_(config.get_double("train.muon_low_momentum")) {
  const int R = replicas.count();
  if (config.get_string("train.optimizer") == "muon") find_matrices();
  learning_rate_ = weight_decay_ = rate_ = scale_ = shaped<double>(R, {1});
  const std::int64_t P = replicas.model().parameters().values().size();
  squares_ = shaped<double>(R, {summed() ? clip_blocks(P) : adam_blocks(P)});
  arena_.reserve(&squares_);
  arena_.reserve(&learning_rate_);
  if (decays_) arena_.reserve(&weight_decay_);
  if (schedule_.warmup > 0 || schedule_.periods > 0) arena_.reserve(&rate_);
  if (summed()) arena_.reserve(&scale_);
  if (!matrices_.empty()) {
    arena_.reserve(&muon_rate_);
    arena_.reserve(&matrix_table_);
    arena_.reserve(&workspace_);
  }
  arena_.allocate();
}

// The matrices with their workspace, and what Adam keeps between them.
template <class Real>
void Optimizer<Real>::find_matrices() {
  const ParameterBlock<Real>& p = replicas_.model().parameters();
  const std::int64_t size = p.values().size();
  std::int64_t workspace = 0, begin = 0;
  pieces_.clear();
  const auto piece = [&](std::int64_t end) {
    if (end > begin) pieces_.push_back({begin, end - begin});
  };
  for (const int i : hidden_matrices(p)) {
    const Tensor<Real> matrix = p.value(i);
    const std::int64_t offset = matrix.data - p.values().data;
    for (const std::int64_t x : {offset, std::int64_t{matrix.dim(0)}, std::int64_t{matrix.dim(1)}, workspace})
      matrices_.push_back(narrow<std::int32_t>(x, "parameters of a model that Muon trains"));
    workspace += muon_workspace_size(matrix.dim(0), matrix.dim(1));
    piece(offset);
    begin = offset + padded<Real>(matrix.size());
  }
  if (matrices_.empty())
    throw OptionError("train.optimizer",
                      "train.optimizer = \"muon\" trains weights of linear maps, and this model has none; "
                      "use \"adamw\"");
  piece(size);
  const int R = replicas_.count();
  matrix_table_ =
      shaped<std::int32_t>(R, {static_cast<int>(matrices_.size()) / int{kMuonColumns}, int{kMuonColumns}});
  workspace_ = shaped<Real>(R, {narrow<std::int32_t>(workspace, "Muon's workspace")});
  muon_rate_ = shaped<double>(R, {1});
}

template <class Real>
void Optimizer<Real>::begin(int r, const Options& config) {
  replicas_.put(learning_rate_, r, {config.get_double("train.learning_rate")});
  if (decays_) replicas_.put(weight_decay_, r, {config.get_double("train.weight_decay")});
  if (matrices_.empty()) return;
  replicas_.put(muon_rate_, r, {config.get_double("train.muon_rate")});
  replicas_.put(matrix_table_, r, matrices_);
}

template <class Real>
void Optimizer<Real>::count(const Exec& exec, const Tensor<Real>& loss) {
  CountStep<Real> count;
  count.period = every_;
  count.loss = loss;
  count.step = replicas_.step;
  count.report = replicas_.report;
  count.schedule = schedule_;
  count.learning_rate = learning_rate_;
  count.rate = rate_;
  count.squares = squares_;
  run(exec, count);
}

template <class Real>
void Optimizer<Real>::close(const Exec& exec) {
  run(exec, TakeNorm<Real>{every_, squares_, replicas_.step, replicas_.report});
}

template <class Real>
void Optimizer<Real>::update(const Exec& exec) {
  ParameterBlock<Real>& p = replicas_.model().parameters();
  if (summed()) {
    const double most = clip_norm_ > 0 ? clip_norm_ : std::numeric_limits<double>::infinity();
    run(exec, ClipScale<Real>{most, p.gradients(), squares_, scale_});
  }
  const Tensor<double> scale = clip_norm_ > 0 ? scale_ : Tensor<double>{};
  for (const Piece& piece : pieces_) {
    const auto part = [&](Tensor<Real> block) {
      block.data += piece.begin;
      block.dims[0] = static_cast<int>(piece.size);
      return block;
    };
    AdamStep<Real> adam;
    adam.beta1 = beta1_;
    adam.beta2 = beta2_;
    adam.parameter = part(p.values());
    adam.gradient = part(p.gradients());
    adam.m = part(p.first_moments());
    adam.v = part(p.second_moments());
    adam.learning_rate = rate_ ? rate_ : learning_rate_;
    adam.step = replicas_.step;
    adam.weight_decay = weight_decay_;
    adam.gradient_scale = scale;
    if (!summed()) adam.squares = squares_;
    run(exec, adam);
  }
  if (matrices_.empty()) return;
  MuonStep<Real> muon;
  muon.momentum = momentum_;
  muon.low_momentum = low_momentum_;
  muon.schedule = schedule_;
  muon.parameter = p.values();
  muon.gradient = p.gradients();
  muon.m = p.first_moments();
  muon.workspace = workspace_;
  muon.matrices = matrix_table_;
  muon.learning_rate = muon_rate_;
  muon.step = replicas_.step;
  muon.weight_decay = weight_decay_;
  muon.gradient_scale = scale;
  run(exec, muon);
}

template std::vector<int> hidden_matrices(const ParameterBlock<float>&);
template std::vector<int> hidden_matrices(const ParameterBlock<double>&);
template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace crosstalk
