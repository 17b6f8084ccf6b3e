// SPDX-License-Identifier: Apache-2.0
#include "models/rules/sequential.h"

#include "kernels/rule/rule_read.h"
#include "models/parts/parts.h"
#include "models/rules/program.h"

namespace crosstalk::rules {

namespace {

/// `alone`: what nodes of the law are copies of, where it is a state that is read at every token; nullptr: a memory's whole law.
template <class Real>
Var<Real> read(Mixer<Real>& m, Law& law, Hoist<Real>& hoist, const std::map<Value, Value>* alone) {
  std::vector<Var<Real>> given;
  GivenStarts outside;
  for (const LawState& one : law.states) {
    given.push_back(m.start(one.name));
    outside.push_back(static_cast<bool>(given.back()));
  }
  const CutLaw cut = rules::cut(law, !alone && !m.at_tokens(), outside);
  const auto original = [&](Value x) { return alone ? alone->at(x) : x; };
  std::vector<Value> all;
  for (const ProgramInput& one : cut.inputs)
    if (one.value->kind != Kind::input) all.push_back(original(one.value));
  if (!alone) hoist.count(all);

  RuleRead<Real> op;
  op.device = m.graph.device();
  op.program = program_of(law, cut, m.K, m.V);
  op.compiled = m.has("form") && m.text("form") == "compiled";
  op.batch = m.B, op.tokens = m.T, op.queries = alone ? m.T : m.Q, op.heads = m.H;
  for (std::size_t i = 0; i < cut.inputs.size(); ++i) {
    const ProgramInput& one = cut.inputs[i];
    const int n = op.program->inputs[i].width;
    Var<Real> x;
    if (one.value->kind == Kind::input) {
      for (std::size_t s = 0; s < given.size(); ++s)
        if (cut.given_starts[s] == one.leaf) x = given[s];
    } else if (one.per == RulePer::token) {
      x = hoist.at_tokens(original(one.value), n);
    } else if (one.per == RulePer::query) {
      x = hoist.at_queries(one.value, n);
    } else {
      x = expand(hoist.value(original(one.value)), {m.B, 1, m.H, n});
    }
    op.x[i] = in(x);
  }
  if (!alone) op.position = ids(m.position());
  for (std::size_t i = 0; i < law.states.size() && m.wants_end(); ++i) {
    const RuleProgram::State& one = op.program->states[i];
    const bool vector = one.columns == 1;
    op.end[i].value =
        shaped<Real>(m.graph.replicas(), {m.B, m.H, vector ? 1 : one.rows, vector ? one.rows : one.columns});
  }
  const auto& added = m.graph.add(op);
  for (std::size_t i = 0; i < law.states.size() && m.wants_end(); ++i)
    m.end(law.states[i].name, {&m.graph, out(added.end[i])});
  return {&m.graph, out(added.o)};
}

}  // namespace

template <class Real>
Var<Real> read_sequentially(Mixer<Real>& m, Law& law) {
  Hoist<Real> hoist(m, law);
  return read<Real>(m, law, hoist, nullptr);
}

template <class Real>
Var<Real> walk_state(Mixer<Real>& m, Hoist<Real>& hoist, const LawState& state) {
  LawAlone alone = law_alone(state);
  return read(m, alone.law, hoist, &alone.originals);
}

template Var<float> read_sequentially(Mixer<float>&, Law&);
template Var<double> read_sequentially(Mixer<double>&, Law&);
template Var<float> walk_state(Mixer<float>&, Hoist<float>&, const LawState&);
template Var<double> walk_state(Mixer<double>&, Hoist<double>&, const LawState&);

}  // namespace crosstalk::rules
