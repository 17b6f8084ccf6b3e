// SPDX-License-Identifier: Apache-2.0
#include "models/rules/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/rules/emit.h"

namespace crosstalk::rules {
namespace {

class Cutter {
 public:
  Cutter(Law& law, CutLaw& out) : g_(law.graph), out_(out) {}

  /// The root with leaves for what needs no state.
  Value cut(Value root, RulePer per) {
    per_ = per;
    made_.clear();
    for (Value node : order({root})) hoisted_[node] = hoistable(node);
    return without(root);
  }
  Value leaf(Value value, RulePer per) {
    for (const ProgramInput& one : out_.inputs)
      if (one.value == value && one.per == per) return one.leaf;
    const Value leaf = g_.leaf(Kind::input, fmt::format("in.{}", out_.inputs.size()), value->shape);
    out_.inputs.push_back({per, value, leaf});
    return leaf;
  }

 private:
  static bool learned(Value x) { return is_learned_kind(x->kind); }
  /// Tells what the graph can do for all tokens at once: numbers and vectors.
  bool hoistable(Value node) const {
    const bool vector = node->shape.rows == 1 || node->shape.columns == 1;
    if (!vector || node->kind == Kind::state || node->kind == Kind::diag || node->kind == Kind::diagonal ||
        node->kind == Kind::eye || node->kind == Kind::input)
      return false;
    return std::all_of(node->args.begin(), node->args.end(), [&](Value a) { return hoisted_.at(a); });
  }
  Value without(Value node) {
    if (const auto it = made_.find(node); it != made_.end()) return it->second;
    const auto varies = [](Value n) {
      return n->kind == Kind::given || n->kind == Kind::token || n->kind == Kind::asking;
    };
    Value out = node;
    if (node->kind == Kind::parameter || (node->shape.columns == 1 && hoisted_.at(node))) {
      if (holds(node, varies)) {
        out = leaf(node, per_);
      } else if (holds(node, learned)) {
        out = leaf(node, RulePer::sequence);
      }
    }
    if (out == node && !node->is_leaf()) {
      std::vector<Value> args;
      for (Value a : node->args) args.push_back(without(a));
      out = g_.with(node, std::move(args));
    }
    return made_[node] = out;
  }

  LawGraph& g_;
  CutLaw& out_;
  RulePer per_ = RulePer::token;
  std::map<Value, bool> hoisted_;
  std::map<Value, Value> made_;
};

/// Lays out the memory of a program and makes its parts.
class Layout {
 public:
  Layout(Law& law, const CutLaw& cut, int K, int V)
      : law_(law), g_(law.graph), cut_(cut), K_(K), V_(V), program_(std::make_shared<RuleProgram>()) {}

  std::shared_ptr<const RuleProgram> make() {
    program_->keys = K_, program_->values = V_;
    place_values();
    make_adjoints();
    for (Value one : kept_) {
      const int place = places_.of[leaf_of_.at(one)] = take(one->shape);
      program_->sums.push_back({size(one->shape.rows), size(one->shape.columns), place});
    }
    next_ = aligned(next_);
    program_->kept = next_ - program_->size;
    place_constants();
    for (const ProgramInput& one : cut_.inputs) places_.of[one.leaf] = take(one.leaf->shape);
    for (std::size_t i = 0; i < cut_.inputs.size(); ++i) {
      const ProgramInput& one = cut_.inputs[i];
      const Shape shape = one.leaf->shape;
      const bool matrix = size(shape.rows) > 1 && size(shape.columns) > 1;
      program_->inputs.push_back(
          {one.per, numbers(shape), places_.of.at(one.leaf), 0, matrix ? size(shape.rows) : 1});
    }
    program_->output = take(law_.read->shape), program_->outputs = numbers(law_.read->shape);
    const int forward = next_;
    next_ = aligned(next_);
    program_->state_gradient = next_;  // each as far from here as its state from place 0
    for (Value g : state_gradients_) places_.of[g] = take_state(g->shape);
    program_->gradients = next_;
    for (std::size_t i = 0; i < cut_.inputs.size(); ++i)
      program_->inputs[i].gradient = places_.of[input_gradients_[i]] = take(cut_.inputs[i].leaf->shape);
    program_->gradients_end = next_;
    places_.of[read_gradient_] = program_->output_gradient = take(law_.read->shape);
    const int backward = next_;
    int& f = program_->forward_numbers;
    int& b = program_->backward_numbers;
    f = forward, b = backward;
    constants();
    const std::set<Value> states(states_.begin(), states_.end());
    const std::set<Value> gradients(state_gradients_.begin(), state_gradients_.end());
    // Parts of one direction lie side by side.
    program_->start = part(starts(), states, forward, f);
    program_->step = part(steps(), states, forward, f);
    program_->read = part({{cut_.read, program_->output}}, {}, forward, f);
    program_->start_again = part(starts(), states, backward, b);
    Outputs again = steps();
    for (Value one : kept_) again.push_back({one, places_.of.at(leaf_of_.at(one))});
    program_->step_again = part(again, states, backward, b);
    // A reading leaves gradients of states that it does not look at as they are.
    std::set<Value> added;
    for (const auto& [x, to] : read_adjoint_)
      if (std::find(state_gradients_.begin(), state_gradients_.end(), to) != state_gradients_.end())
        added.insert(to);
    program_->read_back = part(read_back_, added, backward, b);
    program_->step_back = part(step_back_, gradients, backward, b);  // states stay
    program_->start_back = part(start_back_, {}, backward, b);
    b = std::max(b, f);  // one memory serves both ways
    program_->before = law_.before;
    return program_;
  }

 private:
  using Outputs = std::vector<std::pair<Value, int>>;
  int size(int letter) const { return rules::sized(letter, K_, V_); }
  Size numbers(Shape s) const { return Size(size(s.rows)) * size(s.columns); }
  int take(Shape s) {
    const int n = numbers(s), at = n < 4 ? next_ : aligned(next_);
    next_ = Size(std::int64_t{at} + n);
    return at;
  }
  /// States begin at multiples of four, however small.
  int take_state(Shape s) {
    const int at = take(s);
    next_ = aligned(next_);
    return at;
  }
  RuleProgram::Part part(const Outputs& outputs, std::set<Value> replaced, int temporaries, int& most) {
    Places places = places_;
    places.replaced = std::move(replaced), places.first_temporary = temporaries;
    const auto [made, end] = Emitter(*program_, places, K_, V_).emit(outputs);
    most = std::max(most, end);
    return made;
  }

  void place_values() {
    for (const LawState& one : law_.states) {
      const Value leaf = g_.leaf(Kind::state, one.name, one.shape);
      states_.push_back(leaf), state_gradients_.push_back(g_.leaf(Kind::input, "d." + one.name, one.shape));
      const int at = take_state(one.shape);
      places_.of[leaf] = at;
      program_->states.push_back({size(one.shape.rows), size(one.shape.columns), at});
    }
    program_->size = next_;
    for (const ProgramInput& one : cut_.inputs)
      input_gradients_.push_back(g_.leaf(Kind::input, "d." + one.leaf->name, one.leaf->shape));
    read_gradient_ = g_.leaf(Kind::input, "d.read", law_.read->shape);
  }

  /// Gradients of outputs by states, which replace or add to those there are, and by the inputs of one kind.
  void adjoint(const std::vector<std::pair<Value, Value>>& outputs, RulePer per, bool replaces,
               std::vector<std::pair<Value, Value>>& to) {
    std::vector<Value> wanted = states_;
    for (const ProgramInput& one : cut_.inputs) wanted.push_back(one.leaf);
    const std::vector<Value> found = gradients(g_, outputs, wanted);
    for (std::size_t i = 0; i < cut_.inputs.size(); ++i) {
      const Value x = found[states_.size() + i], d = input_gradients_[i];
      if (!x) continue;
      if (cut_.inputs[i].per == RulePer::sequence) {
        to.push_back({g_.add(d, x), d});
      } else if (cut_.inputs[i].per == per) {
        to.push_back({x, d});
      }
    }
    // Last: what looks at gradients of states has been worked out, and new ones take the place of old ones.
    for (std::size_t i = 0; i < states_.size() && per != RulePer::sequence; ++i) {
      const Value x = found[i], G = state_gradients_[i];
      if (replaces) {
        to.push_back({x ? x : g_.fill(g_.number(0), G->shape), G});
      } else if (x) {
        to.push_back({g_.add(G, x), G});
      }
    }
  }
  void make_adjoints() {
    std::vector<std::pair<Value, Value>> after, first;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      after.push_back({cut_.steps[i], state_gradients_[i]});
      if (cut_.starts[i]) first.push_back({cut_.starts[i], state_gradients_[i]});
    }
    adjoint(after, RulePer::token, true, step_adjoint_);
    keep_sums();
    adjoint({{cut_.read, read_gradient_}}, RulePer::query, false, read_adjoint_);
    adjoint(first, RulePer::sequence, false, start_adjoint_);
  }

  /// Sums over matrices that the step and its adjoint need: what the walk again works out stays for the adjoint.
  void keep_sums() {
    std::vector<Value> steps, roots;
    for (Value step : cut_.steps) steps.push_back(step);
    for (const auto& [x, to] : step_adjoint_) roots.push_back(x);
    const std::vector<Value> forward = order(steps), needed = order(roots);
    const std::set<Value> of_step(forward.begin(), forward.end());
    const auto matrix = [](Value x) { return x->shape.rows != 1 && x->shape.columns != 1; };
    const auto sums = [&](Value x) {
      if (matrix(x) || (x->kind != Kind::matmul && x->kind != Kind::sum && x->kind != Kind::row_sums &&
                        x->kind != Kind::solve))
        return false;
      return std::any_of(x->args.begin(), x->args.end(), matrix);
    };
    std::map<Value, Value> leaves;
    for (Value node : needed)
      if (of_step.count(node) != 0 && sums(node))
        leaves[node] = g_.leaf(Kind::input, fmt::format("kept.{}", leaves.size()), node->shape);
    for (auto& [x, to] : step_adjoint_) x = g_.replaced(x, leaves);
    roots.clear();
    for (const auto& [x, to] : step_adjoint_) roots.push_back(x);
    const std::vector<Value> left = order(roots);
    for (Value node : needed) {
      const auto it = leaves.find(node);
      if (it == leaves.end() || std::find(left.begin(), left.end(), it->second) == left.end()) continue;
      kept_.push_back(node), leaf_of_[node] = it->second;
    }
  }

  /// Numbers of the law have places of their own; 0 and 1 always do.
  void place_constants() {
    std::vector<Value> roots = cut_.steps;
    roots.push_back(cut_.read);
    for (Value x : cut_.starts)
      if (x) roots.push_back(x);
    for (const auto* adjoint : {&step_adjoint_, &read_adjoint_, &start_adjoint_})
      for (const auto& [x, to] : *adjoint) roots.push_back(x);
    std::set<double> all = {0, 1};
    for (Value node : order(roots))
      if (node->kind == Kind::number) all.insert(node->value);
    for (double x : all) places_.constants[x] = next_++;
  }
  void constants() {
    for (const auto& [x, place] : places_.constants) program_->constants.push_back({place, x});
    const auto placed = [&](const std::vector<std::pair<Value, Value>>& adjoint, Outputs& out) {
      for (const auto& [x, to] : adjoint) out.push_back({x, places_.of.at(to)});
    };
    placed(step_adjoint_, step_back_), placed(read_adjoint_, read_back_), placed(start_adjoint_, start_back_);
  }
  Outputs starts() {
    Outputs out;
    for (std::size_t i = 0; i < states_.size(); ++i)
      out.push_back({cut_.starts[i] ? cut_.starts[i] : g_.fill(g_.number(0), states_[i]->shape),
                     places_.of.at(states_[i])});
    return out;
  }
  Outputs steps() {
    Outputs out;
    for (std::size_t i = 0; i < states_.size(); ++i)
      out.push_back({cut_.steps[i], places_.of.at(states_[i])});
    return out;
  }

  Law& law_;
  LawGraph& g_;
  const CutLaw& cut_;
  const int K_, V_;
  std::shared_ptr<RuleProgram> program_;
  Places places_;
  int next_ = 0;
  std::vector<Value> states_, state_gradients_, input_gradients_;
  std::vector<Value> kept_;  ///< in their order
  std::map<Value, Value> leaf_of_;
  Value read_gradient_ = nullptr;
  std::vector<std::pair<Value, Value>> step_adjoint_, read_adjoint_, start_adjoint_;
  Outputs step_back_, read_back_, start_back_;
};

}  // namespace

CutLaw cut(Law& law, bool beside, const GivenStarts& given) {
  CutLaw out;
  Cutter cutter(law, out);
  for (std::size_t i = 0; i < law.states.size(); ++i) {
    const LawState& one = law.states[i];
    out.steps.push_back(cutter.cut(one.step, RulePer::token));
    const bool outside = i < given.size() && given[i];
    out.given_starts.push_back(
        outside ? cutter.leaf(law.graph.leaf(Kind::input, "start." + one.name, one.shape), RulePer::sequence)
                : nullptr);
    out.starts.push_back(outside     ? out.given_starts.back()
                         : one.start ? cutter.cut(one.start, RulePer::sequence)
                                     : nullptr);
  }
  Value read = law.read;
  if (beside && law.before) {
    std::map<Value, Value> zeros;
    for (Value node : order({read}))
      if (node->kind == Kind::token ||
          (node->kind == Kind::given && node->name != "q" && node->name != "head"))
        zeros[node] = law.graph.fill(law.graph.number(0), node->shape);
    read = law.graph.replaced(read, zeros);
  }
  out.read = cutter.cut(read, RulePer::query);
  return out;
}

LawAlone law_alone(const LawState& state) {
  LawAlone out;
  LawGraph& g = out.law.graph;
  std::map<Value, Value> copies;
  for (Value node : order({state.step})) {
    std::vector<Value> args;
    for (Value a : node->args) args.push_back(copies.at(a));
    const Value copy = copies[node] = g.make(node->kind, args, node->shape, node->name, node->value);
    out.originals.emplace(copy, node);
  }
  out.law.states = {{state.name, state.shape, nullptr, copies.at(state.step)}};
  out.law.read = g.leaf(Kind::state, state.name, state.shape);
  return out;
}

std::string refused_by_program(Law& law) {
  const std::size_t states = law.states.size();
  for (Value node : order(law.roots()))
    if (node->kind == Kind::fit) return "fit() is an operation of kernels of memories alone";
  if (states > RuleProgram::kMostStates)
    return fmt::format("it has {} states, and token after token at most {} are carried", states,
                       RuleProgram::kMostStates);
  const std::size_t inputs = cut(law, false, GivenStarts(states, true)).inputs.size();
  if (inputs == 0) return "it looks at no token, query or parameter";
  if (inputs > RuleProgram::kMostInputs)
    return fmt::format(
        "its steps and its reading look at {} values that tokens, queries and parameters make, and token after token at most {} are carried",
        inputs, RuleProgram::kMostInputs);
  return "";
}

std::shared_ptr<const RuleProgram> program_of(Law& law, const CutLaw& cut, int K, int V) {
  law.graph.begin_adjoint();
  const auto size = [&](int letter) { return rules::sized(letter, K, V); };
  // Here sizes are known: sums of ones, as in means, are numbers.
  const auto sized = [&](Value root) {
    std::map<Value, Value> made;
    for (Value node : root ? order({root}) : std::vector<Value>{}) {
      if (node->kind != Kind::sum || node->args[0]->kind != Kind::ones) continue;
      const Shape of = node->args[0]->shape;
      made[node] = law.graph.number(static_cast<double>(size(of.rows)) * size(of.columns));
    }
    return made.empty() ? root : law.graph.replaced(root, made);
  };
  CutLaw all = cut;
  for (auto* roots : {&all.starts, &all.steps})
    for (Value& root : *roots) root = sized(root);
  all.read = sized(all.read);
  return Layout(law, all, K, V).make();
}

}  // namespace crosstalk::rules
