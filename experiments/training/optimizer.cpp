// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/optimizer.h"

#include "kernels/base/narrow.h"
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
Optimizer<Real>::Optimizer(const Options& config, std::int64_t epoch, Replicas<Real>& replicas)
    : replicas_(replicas),
      every_(narrow<int>(config, "eval.every")),
      beta1_(config.get_double("train.beta1")),
      beta2_(config.get_double("train.beta2")),
      clip_norm_(config.get_double("train.clip_norm")),
      decays_(config.get_string("train.optimizer") == "adamw"),
      schedule_(schedule_of(config, epoch)),
      arena_(replicas.device()) {
  const int R = replicas.count();
  learning_rate_ = weight_decay_ = rate_ = scale_ = shaped<double>(R, {1});
  const std::int64_t P = replicas.model().parameters().values().size();
  squares_ = shaped<double>(R, {clip_norm_ > 0 ? clip_blocks(P) : adam_blocks(P)});
  arena_.reserve(&squares_);
  arena_.reserve(&learning_rate_);
  if (decays_) arena_.reserve(&weight_decay_);
  if (schedule_.warmup > 0 || schedule_.periods > 0) arena_.reserve(&rate_);
  if (clip_norm_ > 0) arena_.reserve(&scale_);
  arena_.allocate();
}

template <class Real>
void Optimizer<Real>::begin(int r, const Options& config) {
  replicas_.put(learning_rate_, r, {config.get_double("train.learning_rate")});
  if (decays_) replicas_.put(weight_decay_, r, {config.get_double("train.weight_decay")});
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
  AdamStep<Real> adam;
  adam.beta1 = beta1_;
  adam.beta2 = beta2_;
  adam.parameter = p.values();
  adam.gradient = p.gradients();
  adam.m = p.first_moments();
  adam.v = p.second_moments();
  adam.learning_rate = rate_ ? rate_ : learning_rate_;
  adam.step = replicas_.step;
  adam.weight_decay = weight_decay_;
  if (clip_norm_ > 0) {
    run(exec, ClipScale<Real>{clip_norm_, p.gradients(), squares_, scale_});
    adam.gradient_scale = scale_;
  } else {
    adam.squares = squares_;
  }
  run(exec, adam);
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace crosstalk
