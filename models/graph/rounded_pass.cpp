// The pass rounded: between linear maps on one side and attention, norms, chains and states read by chunks on the other.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/rounded_pass.h"

#include <algorithm>
#include <set>

#include "kernels/attention/attend_mix.h"
#include "kernels/attention/delta_values.h"
#include "kernels/elementwise/map_chain.h"
#include "kernels/elementwise/pick.h"
#include "kernels/linear/joined_linear.h"
#include "kernels/linear/swiglu.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/recurrence/state_read.h"
#include "models/graph/pass_links.h"

namespace crosstalk {
namespace {

/// Counts the linear maps in tiles that read a variable in columns that may be bf16.
template <class Real>
int read_by_maps(Graph<Real>& graph, Variable<Real>* v) {
  int count = 0;
  for (const auto& node : graph.nodes()) {
    const auto* maps = std::any_cast<std::shared_ptr<const JoinedLinear<Real>>>(&node.info);
    count += maps && of((*maps)->x)->root() == v->root() && (*maps)->x.value.columns() % 8 == 0;
  }
  return count;
}

/// Tells whether a gated MLP alone reads a variable.
template <class Real>
bool read_by_swiglu(Graph<Real>& graph, const Links<Real>& links, Variable<Real>* v) {
  for (const auto& node : graph.nodes()) {
    const auto* mlp = std::any_cast<std::shared_ptr<const Swiglu<Real>>>(&node.info);
    if (mlp && of((*mlp)->x)->root() == v->root()) return links.readers(v) == 1;
  }
  return false;
}

/// Tells whether `v` or a view of it is an output of linear maps that nobody else reads.
template <class Real>
bool made_by_maps(const Links<Real>& links, Variable<Real>* v) {
  const auto* maps = links.template alone<std::shared_ptr<const JoinedLinear<Real>>>(v);
  for (int i = 0; maps && i < (*maps)->outputs; ++i)
    if (out((*maps)->y[i])->root() == v->root()) return true;
  return false;
}

/// Values and gradients of variables in bf16; nothing where one of them may not be.
template <class Real>
std::vector<typename Graph<Real>::Reformat> in_bf16(const Graph<Real>& graph,
                                                    const std::vector<Variable<Real>*>& all) {
  std::vector<typename Graph<Real>::Reformat> changes;
  for (Variable<Real>* v : all) {
    if (!graph.may_be_bf16(v)) return {};
    changes.push_back({v, Format::bf16, Format::bf16});
  }
  return changes;
}

/// Tells whether linear maps or a chain of elementwise ops make a variable.
template <class Real>
bool made_to_round(const Links<Real>& links, Variable<Real>* v) {
  if (!links.made(v)) return false;
  const std::any& info = links.maker(v)->info;
  return std::any_cast<std::shared_ptr<const JoinedLinear<Real>>>(&info) ||
         std::any_cast<std::shared_ptr<const MapChain<Real>>>(&info);
}

/// Rounds what lies between linear maps or chains and an attention, and nobody else reads but a delta rule whose values the attention
/// reads: all of them round it where they read it.
template <class Real>
bool rounded_once(Graph<Real>& graph) {
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* reads = op_of<Real, AttendMix<Real>>(node);
    if (!reads || reads->is_bf16() || !reads->takes_bf16()) continue;
    const auto* writes = links.template alone_op<DeltaValues<Real>>(of(reads->v));
    Variable<Real>*o = out(reads->o)->root(), *k = of(reads->k)->root();
    bool good = links.readers(o) == 1 && read_by_maps(graph, o) == 1;
    std::vector<Variable<Real>*> between = {o, k};
    const auto take = [&](const In<Real>& field, int readers) {
      Variable<Real>* x = of(field)->root();
      if (x != k) between.push_back(x);
      good = good && made_to_round(links, x) && links.readers(x) == readers && x->value.columns() % 8 == 0;
    };
    take(reads->x, 1), take(reads->k, writes ? 2 : 1), take(writes ? writes->v : reads->v, 1);
    if (writes) between.push_back(of(reads->v)->root()), good = good && of(writes->k)->root() == k;
    const auto changes = in_bf16(graph, between);
    if (!good || changes.empty()) continue;
    graph.reformat(changes);
    return true;
  }
  return false;
}

/// Rounds what a norm makes, if linear maps or a gated MLP alone read it, all of its rows or (maps) picked ones; and the gradient
/// that it gives to its branch, if that is a linear map's or the MLP's.
template <class Real>
bool rounded_norm_once(Graph<Real>& graph) {
  if (sizeof(Real) != sizeof(float)) return false;
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* norm = std::any_cast<std::shared_ptr<const ResidualNorm<Real>>>(&node.info);
    if (!norm || !(*norm)->takes_bf16()) continue;
    Variable<Real>* y = out((*norm)->y)->root();
    std::vector<Variable<Real>*> between = {y};
    int readers = read_by_swiglu(graph, links, y) ? 1 : read_by_maps(graph, y);
    bool good = !(*norm)->y.value.is_bf16();
    for (const auto& other : graph.nodes()) {
      const auto* pick = std::any_cast<std::shared_ptr<const Pick<Real>>>(&other.info);
      if (!pick || of((*pick)->x)->root() != y) continue;
      ++readers;
      between.push_back(out((*pick)->y)->root());
      const int maps = read_by_maps(graph, between.back());
      good = good && maps > 0 && maps == links.readers(between.back());
    }
    good = good && readers > 0 && readers == links.readers(y);
    auto changes = in_bf16(graph, between);
    if (!good) changes.clear();
    if ((*norm)->branch) {
      Variable<Real>* branch = of((*norm)->branch)->root();
      const bool of_maps = made_by_maps(links, branch) ||
                           links.template alone<std::shared_ptr<const Swiglu<Real>>>(branch) != nullptr;
      if (of_maps && !branch->gradient.is_bf16() && graph.may_be_bf16(branch))
        changes.push_back({branch, branch->value.format, Format::bf16});
    }
    if (changes.empty()) continue;
    graph.reformat(changes);
    return true;
  }
  return false;
}

/// Rounds what a chain of elementwise ops makes for linear maps alone, and gradients that it gives to linear maps.
template <class Real>
bool rounded_chain_once(Graph<Real>& graph) {
  if (sizeof(Real) != sizeof(float)) return false;
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* chain = std::any_cast<std::shared_ptr<const MapChain<Real>>>(&node.info);
    if (!chain) continue;
    std::vector<typename Graph<Real>::Reformat> changes;
    for (int i = 0; i < (*chain)->inputs; ++i) {
      Variable<Real>* x = of((*chain)->x[i])->root();
      if ((*chain)->whole(i) && !x->gradient.is_bf16() && made_by_maps(links, x) &&
          x->value.columns() % 8 == 0 && graph.may_be_bf16(x))
        changes.push_back({x, x->value.format, Format::bf16});
    }
    for (int i = 0; i < (*chain)->outputs; ++i) {
      Variable<Real>* y = out((*chain)->y[i])->root();
      const int maps = read_by_maps(graph, y);
      if (!y->value.is_bf16() && maps > 0 && maps == links.readers(y) && graph.may_be_bf16(y))
        changes.push_back({y, Format::bf16, Format::bf16});
    }
    if (changes.empty()) continue;
    graph.reformat(changes);
    return true;
  }
  return false;
}

/// Rounds what maps and chains make for a state that is read by chunks (and for chains), and what is read for maps alone.
template <class Real>
bool rounded_read_once(Graph<Real>& graph) {
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* found = std::any_cast<std::shared_ptr<const StateRead<Real>>>(&node.info);
    if (!found || !(*found)->takes_bf16()) continue;
    const StateRead<Real>& read = **found;
    const auto picked_for_chains = [&](const auto& other) -> Variable<Real>* {
      const auto* pick = op_of<Real, Pick<Real>>(other);
      Variable<Real>* y = pick ? out(pick->y)->root() : nullptr;
      if (!y || !graph.may_be_bf16(y)) return nullptr;
      for (const std::size_t reader : links.read_at(y))
        if (!op_of<Real, MapChain<Real>>(graph.nodes()[reader])) return nullptr;
      return y;
    };
    const auto may = [&](const In<Real>& field) {
      if (!field || field.value.is_bf16()) return false;
      Variable<Real>* x = of(field)->root();
      const auto reads_it = [&](const auto& other) {
        return std::any_of(other.inputs.begin(), other.inputs.end(),
                           [&](Variable<Real>* v) { return v && v->root() == x; });
      };
      // A chain reads it as the state does, all of its rows or picked ones: products of queries and keys of one token (RWKV-6's
      // bonus, Comba's correction).
      const bool alone = std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& other) {
        return &other == &node || !reads_it(other) ||
               std::any_cast<std::shared_ptr<const MapChain<Real>>>(&other.info) || picked_for_chains(other);
      });
      return alone && made_to_round(links, x) && x->value.columns() % 8 == 0 && graph.may_be_bf16(x);
    };
    std::set<Variable<Real>*> changing;
    const auto take = [&](const In<Real>& field) {
      if (!may(field)) return;
      changing.insert(of(field)->root());
      for (const std::size_t reader : links.read_at(of(field)))
        if (Variable<Real>* y = picked_for_chains(graph.nodes()[reader])) changing.insert(y);
    };
    take(read.q), take(read.erase_read);
    if (read.erase != Erase::free) {
      take(read.k), take(read.v);
    } else if (may(read.k) && may(read.erase_write)) {
      take(read.k), take(read.erase_write);
    }
    Variable<Real>* o = out(read.o)->root();
    if (!read.o.value.is_bf16() && links.readers(o) == 1 && read_by_maps(graph, o) == 1 &&
        graph.may_be_bf16(o))
      changing.insert(o);
    if (changing.empty()) continue;
    std::vector<typename Graph<Real>::Reformat> changes;
    for (Variable<Real>* v : changing) changes.push_back({v, Format::bf16, Format::bf16});
    graph.reformat(changes);
    return true;
  }
  return false;
}

/// Rounds what linear maps make for linear maps alone.
template <class Real>
bool rounded_maps_once(Graph<Real>& graph) {
  if (sizeof(Real) != sizeof(float)) return false;
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* maps = std::any_cast<std::shared_ptr<const JoinedLinear<Real>>>(&node.info);
    for (int i = 0; maps && i < (*maps)->outputs; ++i) {
      Variable<Real>* y = out((*maps)->y[i])->root();
      const int readers = read_by_maps(graph, y);
      if (y->value.is_bf16() || readers == 0 || readers != links.readers(y) || !graph.may_be_bf16(y))
        continue;
      graph.reformat({{y, Format::bf16, Format::bf16}});
      return true;
    }
  }
  return false;
}

}  // namespace

template <class Real>
int round_variables(Graph<Real>& graph) {
  int count = 0;
  while (rounded_once(graph)) ++count;
  while (rounded_norm_once(graph)) ++count;
  while (rounded_chain_once(graph)) ++count;
  while (rounded_read_once(graph)) ++count;
  while (rounded_maps_once(graph)) ++count;
  return count;
}

template int round_variables(Graph<float>&);
template int round_variables(Graph<double>&);

}  // namespace crosstalk
