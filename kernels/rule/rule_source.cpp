// SPDX-License-Identifier: Apache-2.0
#include "kernels/rule/rule_source.h"

#include <stdexcept>

#include <rule_library.h>
#include "kernels/rule/rule_part.h"

namespace crosstalk {
namespace {

using namespace source;

/// The struct of one direction: a law's lasting values, and its parts.
class LawSource {
 public:
  LawSource(const RuleProgram& program, bool backward, const Grid& grid, Shared& shared)
      : program_(program), backward_(backward), grid_(grid), shared_(shared) {
    for (const RuleProgram::Constant& one : program.constants)
      literals_[one.place] = {{1, 1}, fmt::format("Real({:.17g})", one.value), true};
    for (std::size_t i = 0; i < program.states.size(); ++i) {
      const RuleProgram::State& one = program.states[i];
      lasting_[one.place] = {{one.rows, one.columns}, fmt::format("s{}", i)};
      states_.push_back(one.place);
      if (!backward) continue;
      const int gradient = program.state_gradient + one.place;
      lasting_[gradient] = {{one.rows, one.columns}, fmt::format("g{}", i)};
      state_gradients_.push_back(gradient);
    }
    for (std::size_t i = 0; i < program.sums.size() && backward; ++i) {
      const RuleProgram::State& one = program.sums[i];
      lasting_[one.place] = {{one.rows, one.columns}, fmt::format("m{}", i)};
      sums_.push_back(one.place);
    }
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const RuleProgram::Input& one = program.inputs[i];
      const Shape shape = shape_of(one);
      const char* group = one.per == RulePer::token ? "token." : one.per == RulePer::query ? "query." : "";
      inputs_[one.place] = {shape, fmt::format("{}x{}", group, i)};
      if (backward) lasting_[one.gradient] = {shape, fmt::format("d{}", i)};
    }
    make_parts();
    settle();
  }

  std::string text(const char* name) {
    std::string out = fmt::format("struct {} {{\n  static constexpr int size = {}, kept = {};\n", name,
                                  program_.size, program_.kept);
    out += "  struct Token {\n" + declared(RulePer::token) + "  };\n";
    out += "  struct Query {\n" + declared(RulePer::query) + "  };\n";
    out += "  const Place& at;\n  Block block;\n" + declared(RulePer::sequence, "  ");
    for (const auto& [place, leaf] : lasting_) out += declared(leaf, kept(place), "  ");
    out += "\n" + loads();
    for (Made& one : parts_) out += part_text(one);
    return out + "};\n";
  }

 private:
  struct Made {
    std::string head;
    PartSource source;
    std::vector<int> replaced;  ///< lasting places that the part writes
    int stored = -1;            ///< the place of what is read, stored to o
    bool reads_gradient = false;
  };

  static bool contains(const std::vector<int>& all, int place) {
    return std::find(all.begin(), all.end(), place) != all.end();
  }
  unsigned kept(int place) const {
    const auto it = kept_.find(place);
    return it == kept_.end() ? 0 : it->second;
  }
  std::map<int, Leaf> leaves(bool gradient_of_read) const {
    std::map<int, Leaf> all = literals_;
    all.insert(lasting_.begin(), lasting_.end());
    all.insert(inputs_.begin(), inputs_.end());
    if (gradient_of_read) all[program_.output_gradient] = {{program_.outputs, 1}, "d_o"};
    return all;
  }
  /// A part changes states, or gradients; where it has others' places, these hold what nobody wants any more.
  void add_part(const std::string& head, RuleProgram::Part part, bool changes_states, bool reads = false,
                bool gradient = false) {
    Made made{head, PartSource(program_, part, leaves(gradient)), {}, reads ? program_.output : -1, gradient};
    for (const auto& [place, leaf] : lasting_) {
      const bool state = contains(states_, place) || contains(sums_, place);
      if (state != changes_states) continue;
      if (made.source.value(place).op || made.source.value(place).place != place)
        made.replaced.push_back(place);
    }
    parts_.push_back(std::move(made));
  }
  void make_parts() {
    if (backward_) {
      add_part("start_again()", program_.start_again, true);
      add_part("step_again(const Token& token)", program_.step_again, true);
      add_part("read_back(const Query& query, int i)", program_.read_back, false, false, true);
      add_part("step_back(const Token& token)", program_.step_back, false);
      add_part("start_back()", program_.start_back, false);
    } else {
      add_part("start()", program_.start, true);
      add_part("step(const Token& token)", program_.step, true);
      add_part("read(const Query& query, int i)", program_.read, true, true);
    }
  }
  /// Layouts of lasting vectors and of inputs: those in which any part wants them.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Made& one : parts_) {
        std::map<int, unsigned> wanted;
        for (int place : one.replaced) {
          const Node& value = one.source.value(place);
          unsigned& layouts = kept_[place];
          if (value.shape.vector() && !layouts) layouts = lowest(value.native), changed = true;
          wanted[place] = layouts;
        }
        if (one.stored >= 0) wanted[one.stored] = 0;
        one.source.want(wanted);
        for (const Node& node : one.source.nodes()) {
          if (node.op || node.place < 0 || !node.need) continue;
          unsigned& layouts = kept_[node.place];
          if ((layouts | node.need) != layouts) layouts |= node.need, changed = true;
        }
      }
    }
  }

  static std::string declared(const Leaf& leaf, unsigned layouts, const char* indent) {
    std::string out;
    each_layout(leaf.shape, layouts, [&](unsigned layout, const char* end) {
      out += fmt::format("{}{} {}{};\n", indent, leaf.shape.type(layout), leaf.name, end);
    });
    return out;
  }
  /// f(number, input, layouts) for the inputs of a kind that are looked at.
  void each_input(RulePer per, auto&& f) const {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const RuleProgram::Input& one = program_.inputs[i];
      if (one.per == per) f(i, one, kept(one.place));
    }
  }
  std::string declared(RulePer per, const char* indent = "    ") const {
    std::string out;
    each_input(per, [&](std::size_t i, const RuleProgram::Input& one, unsigned layouts) {
      if (layouts) out += declared({shape_of(one), fmt::format("x{}", i)}, layouts, indent);
    });
    return out;
  }
  /// f(variable) for each variable of a value.
  void each_variable(const std::string& name, Shape shape, unsigned layouts, auto&& f) const {
    each_layout(shape, layouts, [&](unsigned, const char* end) { f(name + end); });
  }
  std::string one_variable(const std::string& name, Shape shape, unsigned layouts) const {
    return name + end_of(shape, lowest(layouts));
  }
  static std::string function(const std::string& head, const std::string& body) {
    return "  DEVICE void " + head + " {\n" + body + "  }\n";
  }
  std::string load_inputs(RulePer per, const char* head, const char* from, const char* rows,
                          const char* n) const {
    std::string out;
    each_input(per, [&](std::size_t i, const RuleProgram::Input& one, unsigned layouts) {
      if (!layouts) return;
      each_variable(fmt::format("{}x{}", from, i), shape_of(one), layouts, [&](const std::string& x) {
        out += fmt::format("    load(at.value({}, {}, {}, {}), {});\n", i, rows, one.width, n, x);
      });
    });
    return function(head, out);
  }
  std::string store_gradients(RulePer per, const char* head, const char* rows, const char* n) const {
    std::string out;
    each_input(per, [&](std::size_t i, const RuleProgram::Input& one, unsigned) {
      const std::string to = fmt::format("at.gradient({}, {}, {}, {})", i, rows, one.width, n);
      const Shape shape = shape_of(one);
      const unsigned layouts = kept(one.gradient);
      const std::string from = shape.vector() && !layouts
                                   ? fmt::format("filled<{}>(0)", shape.type(kRow))
                                   : one_variable(fmt::format("d{}", i), shape, layouts);
      out += fmt::format("    if (at.a.inputs[{0}].gradient) store({1}, {2}, at.a.inputs[{0}].adds);\n", i,
                         to, from);
    });
    return function(head, out);
  }
  /// Functions that store lasting values to memory and load them again; what nobody looks at stays where it is.
  std::string kept_values(const std::vector<int>& places, const char* name) const {
    std::string keep, recall;
    for (int place : places) {
      const Leaf& leaf = lasting_.at(place);
      if (leaf.shape.vector() && !kept(place)) continue;
      keep +=
          fmt::format("    store(to + {}, {});\n", place, one_variable(leaf.name, leaf.shape, kept(place)));
      each_variable(leaf.name, leaf.shape, kept(place), [&](const std::string& x) {
        recall += fmt::format("    load(from + {}, {});\n", place, x);
      });
    }
    return function(fmt::format("keep{}(Real* to) const", name), keep) +
           function(fmt::format("recall{}(const Real* from)", name), recall);
  }
  /// A state's numbers at the sequence's end, or their gradient, if they are wanted.
  std::string at_end(std::size_t i, const char* call, const char* what, const std::string& variable) const {
    return fmt::format(
        "    if (at.a.ends[{0}].{2}) {1}(at.a.ends[{0}].{2} + at.r * at.a.ends[{0}].{2}_stride + at.item * {3}ll, {4});\n",
        i, call, what, lasting_.at(states_[i]).shape.numbers(), variable);
  }
  std::string loads() const {
    std::string out = load_inputs(RulePer::sequence, "begin()", "", "1", "0");
    out += load_inputs(RulePer::token, "token(Token& to, int t) const", "to.", "at.a.T", "t");
    out += load_inputs(RulePer::query, "query(Query& to, int i) const", "to.", "at.a.Q", "i");
    out += kept_values(states_, "");
    if (!backward_) {
      std::string end;
      for (std::size_t i = 0; i < states_.size(); ++i) {
        const Leaf& leaf = lasting_.at(states_[i]);
        end += at_end(i, "store", "value", one_variable(leaf.name, leaf.shape, kept(states_[i])));
      }
      return out + function("end() const", end);
    }
    out += kept_values(sums_, "_sums");
    std::string begin;
    for (const auto& [place, leaf] : lasting_) {
      if (contains(states_, place) || contains(sums_, place)) continue;
      each_variable(leaf.name, leaf.shape, kept(place),
                    [&](const std::string& x) { begin += fmt::format("    {0} = zero_like({0});\n", x); });
    }
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const Leaf& leaf = lasting_.at(state_gradients_[i]);
      each_variable(leaf.name, leaf.shape, kept(state_gradients_[i]),
                    [&](const std::string& x) { begin += at_end(i, "load", "gradient", x); });
    }
    out += function("begin_gradients()", begin);
    out += store_gradients(RulePer::token, "store_token(int t) const", "at.a.T", "t");
    out += store_gradients(RulePer::query, "store_query(int i) const", "at.a.Q", "i");
    return out + store_gradients(RulePer::sequence, "store_sequence() const", "1", "0");
  }

  std::string part_text(Made& one) {
    std::string out = fmt::format("  DEVICE void {} {{\n", one.head);
    if (one.reads_gradient) {
      unsigned need = 0;
      for (const Node& node : one.source.nodes())
        if (!node.op && node.place == program_.output_gradient) need = node.need;
      const Leaf leaf{{program_.outputs, 1}, "d_o"};
      out += declared(leaf, need, "    ");
      each_variable("d_o", leaf.shape, need, [&](const std::string& x) {
        out += fmt::format("    load(at.d_o({}, i), {});\n", program_.outputs, x);
      });
    }
    out += one.source.text(shared_, grid_);
    // Values that stand elsewhere move together.
    std::string moved, put;
    for (int place : one.replaced) {
      const Node& value = one.source.value(place);
      const Leaf& leaf = lasting_.at(place);
      each_layout(value.shape, kept(place), [&](unsigned, const char* end) {
        moved += fmt::format("    const auto new_{0}{2} = {1}{2};\n", leaf.name, value.name, end);
        put += fmt::format("    {0}{1} = new_{0}{1};\n", leaf.name, end);
      });
    }
    out += moved + put;
    if (one.stored >= 0) {
      const Node& value = one.source.value(one.stored);
      out += fmt::format("    store(at.o({}, i), {});\n", program_.outputs,
                         one_variable(value.name, value.shape, value.need));
    }
    return out + "  }\n";
  }

  const RuleProgram& program_;
  const bool backward_;
  const Grid grid_;
  Shared& shared_;
  std::map<int, Leaf> literals_, lasting_, inputs_;  ///< by place
  std::vector<int> states_, sums_, state_gradients_;
  std::map<int, unsigned> kept_;  ///< layouts by place
  std::vector<Made> parts_;
};

/// One direction of a law, to be compiled.
struct Direction {
  Grid grid;
  Shared shared;
  std::string text;
  int window = 0;
};

/// Tokens whose states, and sums, fit the shared memory of as many blocks as registers allow: about those of the matrices
/// that are held at once, and 54. Fewer than two: none.
int window_of(const RuleProgram& program, const Direction& made, bool wide, std::size_t shared) {
  const auto number = [&](int n) { return static_cast<std::size_t>(n) * (wide ? 8 : 4); };
  const int threads = made.grid.threads(), held = (program.backward_numbers + threads - 1) / threads;
  const int registers = std::min(255, (wide ? 2 : 1) * held + 54);
  const std::size_t each =
      shared / static_cast<std::size_t>(std::clamp(65536 / (registers * threads), 1, 32));
  const std::size_t own = 1024 + number(2 * made.shared.exchange + made.shared.stage + 8);
  if (each <= own) return 0;
  const auto window =
      static_cast<int>(std::min<std::size_t>((each - own) / number(program.size + program.kept), 8));
  return window < 2 ? 0 : window;
}

Direction direction_of(const RuleProgram& program, bool backward, bool wide, bool positions,
                       std::size_t available) {
  Direction out;
  out.grid = grid_of(program, backward);
  const std::string law = LawSource(program, backward, out.grid, out.shared).text("Law");
  const int exchange = (out.shared.exchange + 3) / 4 * 4;
  if (backward) out.window = window_of(program, out, wide, available);
  out.text = fmt::format(
      "#define CROSSTALK_REAL {}\n#define CROSSTALK_ROW_THREADS {}\n#define CROSSTALK_COLUMN_THREADS {}\n"
      "#define CROSSTALK_POSITIONS {}\n#define CROSSTALK_BEFORE {}\n#define CROSSTALK_WINDOW {}\n",
      wide ? "double" : "float", out.grid.row_threads, out.grid.column_threads, positions ? "true" : "false",
      program.before && !positions ? "true" : "false", out.window);
  out.text += fmt::format(R"({}
namespace crosstalk {{

{}
}}  // namespace crosstalk

using namespace crosstalk;
extern "C" __global__ void __launch_bounds__(kThreads) rule_walk(const __grid_constant__ Arguments a) {{
  __shared__ __align__(16) Real exchange[{}];
  __shared__ __align__(16) Real stage[{}];
  const Place at{{a, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)}};
  Law law{{at, {{{{exchange, {}}}, stage}}}};
  {}(law, at);
}}
)",
                          kRuleLibrary, law, 2 * exchange, std::max(out.shared.stage, 1), exchange,
                          backward ? "walk_backward" : "walk_forward");
  return out;
}

}  // namespace

RuleSource rule_source(const RuleProgram& program, bool wide, bool positions, std::size_t shared) {
  RuleSource out;
  for (const RuleProgram::State& one : program.states) {
    if (one.numbers() > 128 * 128)
      out.refused = fmt::format("a state of {} x {} numbers fits no block's registers (at most 128 x 128)",
                                one.rows, one.columns);
  }
  // A matrix of one row or column has the layouts of a vector of the other kind.
  if ((program.keys == 1) != (program.values == 1))
    out.refused =
        fmt::format("keys of {} and values of {} numbers; give both more than one, or leave memory.form out",
                    program.keys, program.values);
  // So has, beside keys and values of one number, a state of 3 x K.
  if (program.keys == 1 && program.values == 1)
    for (const RuleProgram::State& one : program.states)
      if (one.numbers() > 1)
        out.refused = fmt::format(
            "keys and values of one number beside a state of {} x {}; give both more than one, or leave memory.form out",
            one.rows, one.columns);
  const auto& all = program.operations;
  if (std::any_of(all.begin(), all.end(), [](const auto& op) { return op.code == RuleCode::solve; }))
    out.refused = "solve() is not compiled; leave memory.form out";
  if (!out.refused.empty()) return out;
  const auto whole = [](int place) { return place % 4 == 0; };  // what moves in accesses of four numbers
  if (!whole(program.size) || !std::all_of(program.states.begin(), program.states.end(),
                                           [&](const RuleProgram::State& one) { return whole(one.place); }))
    throw std::logic_error("[rule_source] states do not lie at multiples of four numbers");
  const Direction forward = direction_of(program, false, wide, positions, shared);
  const Direction backward = direction_of(program, true, wide, positions, shared);
  for (const Direction& one : {forward, backward})
    if ((2 * one.shared.exchange + one.shared.stage + 8) * (wide ? 8 : 4) > 48 * 1024)
      out.refused = "it multiplies or turns matrices that are too large for a block's shared memory";
  if (!out.refused.empty()) return out;
  out.forward = forward.text, out.backward = backward.text;
  out.window = backward.window;
  out.window_bytes = static_cast<std::size_t>(out.window) *
                     static_cast<std::size_t>(program.size + program.kept) * (wide ? 8 : 4);
  out.forward_threads = forward.grid.threads(), out.backward_threads = backward.grid.threads();
  return out;
}

}  // namespace crosstalk
