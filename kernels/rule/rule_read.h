// A memory whose law is a program (rule_program.h): states of any shape, token after token.
//
//   states_0 = start(inputs of the sequence)
//   states_t = step(states_{t-1}, inputs of token t)
//   o_i      = read(states, inputs of query i)
//
// Forward keeps the states at every n-th token, n about half of sqrt(T); backward walks each segment once more and takes it
// back.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "kernels/base/op.h"
#include "kernels/law/law_walk.h"
#include "kernels/rule/rule_compiled.h"
#include "kernels/rule/rule_program.h"

namespace crosstalk {

namespace law {
/// Tokens between two kept states. States kept and states around the tokens of a segment are fewest in all at sqrt(T); half of
/// that is a quarter more, and what is around the tokens stays twice as often in the caches. `window`: tokens whose states a
/// block holds in shared memory, 0 for none. A segment is no longer than two of them, since its first half is walked twice.
constexpr int rule_segment_length(int T, int window) {
  const int length = (segment_length(T) + 1) / 2;
  if (window <= 0 || window >= length) return length;
  if (4 * window >= 3 * length) return window;
  return length < 2 * window ? length : 2 * window;
}
}  // namespace law

template <class Real>
struct RuleRead {
  static constexpr int kInputs = RuleProgram::kMostInputs, kStates = RuleProgram::kMostStates;
  Device device = Device::cpu;
  std::shared_ptr<const RuleProgram> program;
  int batch = 0, tokens = 0, queries = 0, heads = 0;  ///< B, T, Q, H
  bool compiled = false;  ///< on a GPU by NVRTC (rule_compiled.h) instead of interpreted; the CPU interprets

  In<Real> x[kInputs];  ///< [R,B,n,H,width], n = 1, T or Q as the program says
  Ids position;         ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands at token t
  Out<Real> o;          ///< [R,B,Q,H,V]
  Out<Real>
      end[kStates];  ///< states at the end, [R,B,H,rows,columns]; wanted where the shape is set before plan()
  Saved<Real> states;  ///< [R,B,H,segments,size]
  Work<Real> work;     ///< [R,B,H,numbers]: states of a segment, and memory of the program, where not shared

  std::shared_ptr<const CompiledRule> kernels;  ///< made by plan() where compiled
  int length = 1;                               ///< tokens between two kept states; plan() says

  static constexpr const char* kName = "rule_read";
  const char* form_name(Device) const { return kernels ? "compiled" : "recurrent"; }
  void fields(auto&& f) {
    for (int i = 0; i < kInputs; ++i) f(kInputNames[i], x[i]);
    f("position", position), f("o", o);
    for (int i = 0; i < kStates; ++i) f(kEndNames[i], end[i]);
    f("states", states), f("work", work);
  }
  static constexpr const char* kInputNames[kInputs] = {
      "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10", "x11",
      "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23"};
  static constexpr const char* kEndNames[kStates] = {"end0", "end1", "end2", "end3",
                                                     "end4", "end5", "end6", "end7"};

  int B() const { return batch; }
  int T() const { return tokens; }
  int Q() const { return queries; }
  int H() const { return heads; }
  int rows_of(RulePer per) const { return per == RulePer::sequence ? 1 : per == RulePer::token ? T() : Q(); }

  void plan() {
    const PlanCheck want{kName};
    want(program != nullptr, "a program is needed");
    const int inputs = static_cast<int>(program->inputs.size());
    want(inputs > 0 && inputs <= kInputs && program->states.size() <= kStates,
         "1 to 24 inputs, at most 8 states");
    for (int i = 0; i < inputs; ++i) {
      const RuleProgram::Input& one = program->inputs[static_cast<std::size_t>(i)];
      want(x[i] && x[i].value.size() == static_cast<std::int64_t>(B()) * rows_of(one.per) * H() * one.width,
           "an input does not fit the program");
    }
    want(position || Q() == T(), "without positions every token is read: Q = T");
    const int R = x[0].value.R;
    o.value = shaped<Real>(R, {B(), Q(), H(), program->outputs});
    if (compiled && device == Device::cuda)
      kernels = compiled_rule(*program, sizeof(Real) == 8, static_cast<bool>(position));
    else if (device == Device::cuda)
      program->on_device();
    const int window = kernels ? kernels->window() : 0;
    length = law::rule_segment_length(T(), window);
    states.value = shaped<Real>(R, {B(), H(), (T() + length - 1) / length, program->size});
    std::int64_t numbers = 1;
    if (window == 0) numbers = length * static_cast<std::int64_t>(program->size + program->kept);
    const std::int64_t memory = kernels ? 0 : program->backward_numbers;
    work.value = shaped<Real>(R, {B(), H(), padded<Real>(numbers) + padded<Real>(memory)});
  }
};
CROSSTALK_OP(RuleRead)

}  // namespace crosstalk
