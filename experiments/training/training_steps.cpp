// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/training_steps.h"
#include "kernels/base/text/narrow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/elementwise/elementwise.h"
#include "tasks/lanes.h"

namespace crosstalk {
namespace {

constexpr int kUnroll = 10;  // training steps in one captured graph, at most

}  // namespace

int unrolled_steps(Device device, const Options& config, const Epoch& epoch) {
  if (device == Device::cpu) return 1;
  if (epoch.parts().size() > 1) return kUnroll;  // the rest of a segment goes step by step
  const std::int64_t common = std::gcd(config.get_int("eval.every"), config.get_int("train.max_steps"));
  for (int u = kUnroll; u > 1; --u) {
    if (common % u == 0) return u;
  }
  return 1;
}

template <class Real>
TrainingSteps<Real>::TrainingSteps(const Options& config, const Task& task, Replicas<Real>& replicas)
    : replicas_(replicas),
      epoch_(task, narrow<int>(config, "train.batch")),
      batch_(narrow<int>(config, "train.batch")),
      unroll_(unrolled_steps(replicas.device(), config, epoch_)),
      optimizer_(config, epoch_.steps(), replicas),
      arena_(replicas.device()) {
  if (config.get_int("train.max_steps") == 0) return;
  if (replicas.device() == Device::cuda && batch_ > kMostGridRows)
    throw ShapeError(fmt::format(
        "train.batch = {} is more than a GPU takes at once; it must be at most {} (or use --device cpu)",
        batch_, kMostGridRows));
  int scratch = 0;
  std::vector<SequenceShape> shapes;
  for (const EpochPart& part : epoch_.parts()) {
    part.task->prepare(replicas.device());
    scratch = std::max(scratch, part.task->scratch_size());
    const SequenceShape shape = part.task->shape(Split::train);
    const auto known = std::find(shapes.begin(), shapes.end(), shape);
    const std::size_t index = parts_.size();
    parts_.emplace_back();
    if (train_lanes(task) > 0) {
      if (!lanes_)
        lanes_ = replicas.model().pieces(batch_, shape, {"task.lanes", train_lanes(task), true, unroll_});
      parts_[index].graph = {lanes_, index == 0 ? lanes_->first.get() : lanes_->next.get()};
      replicas.bind(*parts_[index].graph, replicas.step);
    } else if (known != shapes.end()) {
      parts_[index].graph = parts_[static_cast<std::size_t>(known - shapes.begin())].graph;
    } else {
      parts_[index].graph = replicas.model().graph(batch_, shape, true, unroll_);
      replicas.bind(*parts_[index].graph, replicas.step);
    }
    shapes.push_back(shape);
    parts_[index].one = std::make_unique<Replay>([this, index](const Exec& exec) { queue(exec, index, 1); });
    parts_[index].many =
        std::make_unique<Replay>([this, index](const Exec& exec) { queue(exec, index, unroll_); });
  }
  scratch_ = std::make_unique<DrawScratch>(replicas.device(), replicas.count(), batch_ * unroll_, scratch);
  if (parts_.size() == 1 || lanes_) return;
  number_ = shaped<std::int32_t>(replicas.count(), {1});
  arena_.reserve(&number_);
  arena_.allocate();
}

template <class Real>
bool TrainingSteps<Real>::advance(const std::vector<int>& active, std::int64_t from, std::int64_t steps,
                                  const std::function<bool(std::int64_t queued)>& stopped) {
  if (steps == 0) return true;
  const Exec exec = replicas_.exec(active);
  const bool all = take_steps(exec, from, steps, stopped);
  optimizer_.close(exec);
  return all;
}

template <class Real>
bool TrainingSteps<Real>::take_steps(const Exec& exec, std::int64_t from, std::int64_t steps,
                                     const std::function<bool(std::int64_t queued)>& stopped) {
  for (std::int64_t done = 0; done < steps;) {
    if (stopped(done)) return false;
    const Epoch::Place place = epoch_.at(from + done);
    const Part& part = parts_[place.part];
    const bool many = unroll_ > 1 && std::min(place.left, steps - done) >= unroll_;
    (many ? *part.many : *part.one)(exec, replicas_.stream());
    done += many ? unroll_ : 1;
    if (replicas_.stream()) stay_near();
  }
  return true;
}

// Steps are queued faster than a GPU computes them. A stop has to wait for all queued steps, so these are at most about half a
// second of work.
template <class Real>
void TrainingSteps<Real>::stay_near() {
  if (++ahead_ < most_ahead_) return;
  replicas_.synchronise();
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> seconds = now - near_;
  const double a_replay = seconds.count() / ahead_;
  most_ahead_ = static_cast<int>(std::clamp(0.5 / std::max(a_replay, 1e-6), 1.0, 1e5));
  ahead_ = 0;
  near_ = now;
}

// The batches of the steps are drawn together, which hides the latency of drawing.
template <class Real>
void TrainingSteps<Real>::queue(const Exec& exec, std::size_t index, int steps) {
  const EpochPart& part = epoch_.parts()[index];
  ModelGraph<Real>& graph = *parts_[index].graph;
  DrawArgs draw = replicas_.draw_args(graph, Split::train, batch_ * steps);
  draw.counter = replicas_.step;
  if (number_) {
    run(exec,
        CountBatches<Real>{narrow<std::int32_t>(epoch_.steps(), "steps of an epoch"),
                           narrow<std::int32_t>(part.start, "steps of an epoch"),
                           narrow<std::int32_t>(part.steps, "steps of an epoch"), replicas_.step, number_});
    draw.counter = number_;
  }
  draw.stride = batch_;
  draw.scratch = scratch_->tensor();
  part.task->draw(exec, draw);
  const bool goes_on = lanes_ && index > 0;
  graph.batches = steps;
  graph.prepare(exec);
  for (int u = 0; u < steps; ++u) {
    graph.select(u);
    if (lanes_ && !goes_on) clear_gradients(exec);
    if (goes_on)
      run(exec, CountPlaces<Real>{narrow<std::int32_t>(epoch_.steps(), "windows of a lane"), replicas_.step,
                                  *lanes_->places});
    graph.graph.forward(exec);
    optimizer_.count(exec, graph.loss.loss->value);
    graph.graph.backward(exec);
    if (lanes_) lanes_->hand_on(exec, !goes_on);  // gradients are taken of what the window began with
    optimizer_.update(exec);
    if (lanes_ && !goes_on) clear_gradients(exec);  // what states start with has none in windows that go on
  }
  graph.select(0);
}

template <class Real>
void TrainingSteps<Real>::clear_gradients(const Exec& exec) {
  Map<Real> zero;
  zero.x.value = zero.y.value = replicas_.model().parameters().gradients();
  zero.scale = 0;
  forward(exec, zero);
}

template <class Real>
std::string TrainingSteps<Real>::carried(int r) const {
  std::string bytes;
  if (!lanes_) return bytes;
  for (const auto& hand : lanes_->hands) {
    const Tensor<Real>& to = hand.to->value;
    const std::vector<Real> numbers = replicas_.copy_of(to, r, static_cast<std::size_t>(to.size()));
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Real));
  }
  return bytes;
}

template <class Real>
void TrainingSteps<Real>::restore_carried(int r, const std::string& bytes) {
  std::size_t at = 0;
  for (std::size_t i = 0; lanes_ && i < lanes_->hands.size(); ++i) {
    const Tensor<Real>& to = lanes_->hands[i].to->value;
    std::vector<Real> numbers(static_cast<std::size_t>(to.size()));
    const std::size_t size = numbers.size() * sizeof(Real);
    if (bytes.size() - at < size) throw std::runtime_error("it lacks what its lanes hold");
    std::memcpy(numbers.data(), bytes.data() + at, size);
    replicas_.put(to, r, numbers);
    at += size;
  }
  if (at != bytes.size()) throw std::runtime_error("it has parameters of another model");
}

template <class Real>
std::string TrainingSteps<Real>::forms() const {
  return parts_[0].graph->graph.forms();
}

template class TrainingSteps<float>;
template class TrainingSteps<double>;

}  // namespace crosstalk
