// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/optimizer/clip.h"
#include "models/memory.h"
#include "models/mixers/language_options.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {

RateSchedule schedule_of(const Options& config, std::int64_t epoch) {
  const std::string& name = config.get_string("train.schedule");
  const std::int64_t steps = config.get_int("train.max_steps"), warmup = config.get_int("train.warmup_steps");
  RateSchedule schedule;
  schedule.warmup = narrow<std::int32_t>(warmup, "train.warmup_steps");
  schedule.least = config.get_double("train.least_rate");
  if (name == "one_cycle") schedule.cycle = narrow<std::int32_t>(steps, "train.max_steps");
  schedule.line = name == "linear" || name == "wsd";
  if ((name == "cosine" || schedule.line) && steps > warmup) {
    const std::int64_t decline =
        name == "wsd" ? std::llround(config.get_double("train.decay_share") * static_cast<double>(steps))
                      : steps - warmup;
    schedule.start = narrow<std::int32_t>(steps - decline, "train.max_steps");
    schedule.periods = narrow<std::int32_t>(decline, "train.max_steps");
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

namespace {

/// What the sources of the model's layers take out of weight decay (`_no_weight_decay`).
std::vector<std::string> marked_parameters(const Options& config) {
  std::vector<std::string> names;
  const auto add = [&](const Options& options) {
    const std::vector<std::string>& own = memory_of(options).published.undecayed;
    names.insert(names.end(), own.begin(), own.end());
  };
  if (!is_language(config)) {
    add(config);
  } else {
    for (const LanguageLayer& layer : language_layers(config))
      if (!layer.conv) add(layer.options);
  }
  return names;
}

/// Whether a word of train.no_decay other than marked names a parameter: a group, or the end of its name. A quantity of low rank
/// adds its bias behind the second map: decay.bias is decay.up.bias, too.
bool names_parameter(const std::string& word, const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (word == "biases") return name.ends_with("bias");
  if (word == "norms")
    return dot != std::string::npos && std::string_view(name).substr(0, dot).ends_with("norm");
  const std::size_t up = name.rfind(".up.");
  const std::string plain = up == std::string::npos ? name : name.substr(0, up) + name.substr(up + 3);
  return name == word || name.ends_with("." + word) || plain == word || plain.ends_with("." + word);
}

}  // namespace

template <class Real>
std::vector<bool> undecayed_parameters(const Options& config, const ParameterBlock<Real>& parameters) {
  std::vector<bool> found(static_cast<std::size_t>(parameters.count()));
  std::string words = config.get_string("train.no_decay");
  if (words == "none") return found;
  std::replace(words.begin(), words.end(), ',', ' ');
  std::istringstream all(words);
  for (std::string word; all >> word;) {
    const std::vector<std::string> names = word == "marked" ? marked_parameters(config) : std::vector{word};
    bool any = false;
    for (int i = 0; i < parameters.count(); ++i)
      for (const std::string& one : names)
        if (names_parameter(one, parameters.name(i))) found[static_cast<std::size_t>(i)] = any = true;
    if (!any)
      throw OptionError(
          "train.no_decay",
          word == "marked"
              ? "train.no_decay = \"marked\": the source of no layer of this model marks a parameter; leave it out"
              : fmt::format(
                    "train.no_decay: no parameter of this model is called {0}, or NAME.{0}; it can be none, marked, "
                    "norms, biases, or ends of names, as 'crosstalk describe MEMORY' prints them",
                    word));
  }
  if (config.get_string("train.optimizer") == "muon")
    for (const int i : hidden_matrices(parameters))
      if (found[static_cast<std::size_t>(i)])
        throw OptionError(
            "train.no_decay",
            fmt::format(
                "train.no_decay: {} is a matrix that Muon trains, and all of these decay; name others",
                parameters.name(i)));
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
      momentum_(config.get_double("train.muon_momentum")),
      low_momentum_(config.get_double("train.muon_low_momentum")) {
  const int R = replicas.count();
  if (config.get_string("train.optimizer") == "muon") find_matrices();
  find_pieces(undecayed_parameters(config, replicas.model().parameters()));
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

// The matrices with their workspace.
template <class Real>
void Optimizer<Real>::find_matrices() {
  const ParameterBlock<Real>& p = replicas_.model().parameters();
  std::int64_t workspace = 0;
  for (const int i : hidden_matrices(p)) {
    const Tensor<Real> matrix = p.value(i);
    const std::int64_t offset = matrix.data - p.values().data;
    for (const std::int64_t x : {offset, std::int64_t{matrix.dim(0)}, std::int64_t{matrix.dim(1)}, workspace})
      matrices_.push_back(narrow<std::int32_t>(x, "parameters of a model that Muon trains"));
    workspace += muon_workspace_size(matrix.dim(0), matrix.dim(1));
  }
  if (matrices_.empty())
    throw OptionError(
        "train.optimizer",
        "train.optimizer = \"muon\" trains weights of linear maps, and this model has none; use \"adamw\"");
  const int R = replicas_.count();
  matrix_table_ =
      shaped<std::int32_t>(R, {static_cast<int>(matrices_.size()) / int{kMuonColumns}, int{kMuonColumns}});
  workspace_ = shaped<Real>(R, {narrow<std::int32_t>(workspace, "Muon's workspace")});
  muon_rate_ = shaped<double>(R, {1});
}

// What Adam trains, in pieces that decay alike: all but Muon's matrices.
template <class Real>
void Optimizer<Real>::find_pieces(const std::vector<bool>& undecayed) {
  const ParameterBlock<Real>& p = replicas_.model().parameters();
  std::vector<bool> is_matrix(undecayed.size());
  if (!matrices_.empty())
    for (const int i : hidden_matrices(p)) is_matrix[static_cast<std::size_t>(i)] = true;
  for (std::size_t i = 0; i < undecayed.size(); ++i) {
    if (is_matrix[i]) continue;
    const Tensor<Real> one = p.value(static_cast<int>(i));
    const std::int64_t begin = one.data - p.values().data, end = begin + padded<Real>(one.size());
    const bool joins = !pieces_.empty() && pieces_.back().begin + pieces_.back().size == begin &&
                       pieces_.back().decays != undecayed[i];
    if (joins)
      pieces_.back().size = end - pieces_.back().begin;
    else
      pieces_.push_back({begin, end - begin, !undecayed[i]});
  }
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
    if (piece.decays) adam.weight_decay = weight_decay_;
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
template std::vector<bool> undecayed_parameters(const Options&, const ParameterBlock<float>&);
template std::vector<bool> undecayed_parameters(const Options&, const ParameterBlock<double>&);
template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace crosstalk
