// Passes: chains of nodes replaced by one op, before a graph is planned.
//
// A memory says what is computed; a pass knows that a chain has a faster form. Every pass can be switched
// off, and what it makes is tested against the chain that it replaces:
//
//   table_scores    embedding > feature map > products of attend   no keys are written (training on CUDA, few
//   queries)
//   attend_mix      attend (e^s) > mix                     no T x T weights are written (CUDA)
//   swiglu          two linear maps of one input > silu, product > linear map   no hidden unit is written (CUDA; bf16)
//   joined_linear   linear maps of one input               x is read once, d_x written once (CUDA; float:
//   bf16)
//   gained_norm      norm > product with a gain a column > product with a gate   rows are written once (CUDA)
//   map_chain        maps, sums, products, norms of rows over the same numbers   what lies between stays in registers (CUDA)
//   rounded         joined_linear > attend_mix > joined_linear, residual_norm > joined_linear, joined_linear > map_chain >
//   joined_linear   what lies between has the format bf16 (CUDA; bf16); of what a chain reads, the gradient
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <vector>

#include "models/graph/graph.h"

namespace crosstalk {

/// Names of all passes, in the order in which they run.
const std::vector<std::string>& pass_names();

/// Passes that this process leaves out (crosstalk --no-pass). Set before graphs are built.
void switch_off_passes(const std::set<std::string>& names);

/// Runs the passes that are on and fit the graph's device.
template <class Real>
void run_passes(Graph<Real>& graph);
/// One pass, whatever the device and the switches: how often it replaced something.
template <class Real>
int run_pass(Graph<Real>& graph, const std::string& name);

}  // namespace crosstalk
