// A law as a program of the sequential engine (kernels/rule/rule_program.h): which values are inputs, and where numbers stand.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/rule/rule_program.h"
#include "models/rules/law.h"

namespace crosstalk::rules {

/// A value that is made for all tokens, or all queries, at once, and that the program reads.
struct ProgramInput {
  RulePer per;
  Value value;  ///< in the law's graph
  Value leaf;   ///< what stands for it in the program
};

/// States of a law whose start is given.
using GivenStarts = std::vector<bool>;

/// A law cut into what needs no state and the rest.
struct CutLaw {
  std::vector<ProgramInput> inputs;
  std::vector<Value> starts, steps;  ///< of the states in order, over inputs and states; starts nullptr: 0
  Value read = nullptr;
  std::vector<Value> given_starts;  ///< leaves of starts that are given from outside, or nullptr
};
/// `beside`: queries stand beside the sequence; a reading before the step has no token then.
CutLaw cut(Law& law, bool beside, const GivenStarts& given = {});

/// A state as a law of a graph of its own, which reads it; and what its nodes are copies of.
struct LawAlone {
  Law law;
  std::map<Value, Value> originals;
};
LawAlone law_alone(const LawState& state);

/// Why the sequential engine does not take a law, or nothing.
std::string refused_by_program(Law& law);

/// The program at these sizes. It adds nodes to the law's graph.
std::shared_ptr<const RuleProgram> program_of(Law& law, const CutLaw& cut, int K, int V);

}  // namespace crosstalk::rules
