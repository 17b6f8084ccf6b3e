// Passes: chains of nodes that one op replaces.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/passes.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/attention/attend.h"
#include "kernels/attention/attend_mix.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/fused/table_scores.h"
#include "kernels/linear/joined_linear.h"
#include "kernels/linear/swiglu.h"
#include "kernels/norm/normalize.h"
#include "kernels/norm/residual_norm.h"
#include "models/graph/map_chain_pass.h"
#include "models/graph/nodes.h"
#include "models/graph/pass_links.h"
#include "models/graph/rounded_pass.h"

namespace crosstalk {
namespace {

std::set<std::string>& switched_off() {
  static std::set<std::string> names;
  return names;
}

template <class Real>
using Phi = std::shared_ptr<const MapFeatures<Real>>;

/// Calls make(), which adds nodes at the end of the graph, moves them to where `last` stands and removes the
/// nodes of `chain`.
template <class Real, class Make>
void replace(Graph<Real>& graph, const std::vector<typename Graph<Real>::Node*>& chain, const Make& make) {
  std::set<std::size_t> gone;
  const auto& nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::find(chain.begin(), chain.end(), &nodes[i]) != chain.end()) gone.insert(i);
  const std::size_t last = *gone.rbegin();  // its output is that of the new nodes
  for (const std::size_t i : gone)
    for (Variable<Real>* output : nodes[i].outputs)
      if (i != last) output->owned = false;  // without memory: nobody reads it any more
  put_in_place(graph, gone, last, make);
}

/// In training, where there are lists of ids, as long as there are fewer queries than make a product of keys
/// pay.
/// FAVOR+ then projects tables, not keys.
template <class Real>
bool scores_from_tables(const LookupNode<Real>& lookup, const Attend<Real>& attend, FeatureMap map, int nu) {
  constexpr int kMostQueries = 4;
  std::int64_t rows = 0;
  for (const auto& table : lookup.tables) {
    if (!table.buckets.order) return false;
    rows += table.rows->value.rows();
  }
  const int d = lookup.tables[0].rows->value.columns();
  return !lookup.bias && attend.Q() <= kMostQueries && table_scores_cover(map, d, nu) &&
         (map != FeatureMap::favor || rows <= static_cast<std::int64_t>(attend.B()) * attend.T());
}

/// Products of queries and keys of one head. What makes weights of them reads them as scores that are given.
template <class Real>
bool table_scores_once(Graph<Real>& graph) {
  using Weights = std::shared_ptr<const Attend<Real>>;
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const Weights* found = std::any_cast<Weights>(&node.info);
    if (!found) continue;
    const Attend<Real> from = **found;
    if (!from.k || from.H() != 1 || !from.position || from.extra) continue;
    auto *keys = static_cast<Variable<Real>*>(from.k.variable),
         *queries = static_cast<Variable<Real>*>(from.x.variable);
    MapFeatures<Real> key, query;
    key.x = in(keys), query.x = in(queries);
    std::vector<typename Graph<Real>::Node*> chain = {&node};
    if (const auto* map = links.template alone<Phi<Real>>(keys)) {
      const auto* asked = links.template alone<Phi<Real>>(queries);
      if (!asked || (*asked)->map != (*map)->map || (*asked)->number != (*map)->number) continue;
      key = **map, query = **asked;
      chain.push_back(links.maker(keys));
      chain.push_back(links.maker(queries));
    }
    const auto* lookup = links.template alone<LookupNode<Real>>(of(key.x));
    if (!lookup || !scores_from_tables(*lookup, from, key.map, key.number)) continue;
    chain.push_back(links.maker(of(key.x)));
    const std::vector<Table<Real>> tables = lookup->tables;  // a copy: the nodes go
    BatchIds batch;
    batch.tokens = lookup->ids, batch.position = from.position.source;
    batch.B = from.B(), batch.T = from.T(), batch.Q = from.Q();
    Variable<Real>* asked = graph.view(of(query.x), {batch.B, batch.Q, query.x.value.columns()});
    Variable<Real>* a = from.plain() ? graph.view(out(from.a), {batch.B, batch.Q, batch.T}) : nullptr;
    replace(graph, chain, [&] {
      a = table_scores(graph, from.scale, key.map, key.number, tables, of(key.omega), asked, batch, a);
      if (from.plain()) return;
      Attend<Real> weights = from;
      weights.x = weights.k = {};
      weights.extra = in(graph.view(a, {batch.B, 1, batch.Q, batch.T}));
      weights.d_s = {};  // products have no gradients here
      static_cast<Variable<Real>*>(from.d_s.variable)->owned = false;
      graph.add(weights);
    });
    return true;
  }
  return false;
}

/// Weights that somebody else reads, looks at or solves with stay; those of few queries are small, and
/// doubles and wide heads have no tensor cores.
template <class Real>
bool attend_mix_once(Graph<Real>& graph) {
  constexpr int kFewest = 16,
                kFewestInBf16 = 4;  // many heads of few queries share a multiprocessor's warps well
  using Weights = std::shared_ptr<const Attend<Real>>;
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* mix = std::any_cast<std::shared_ptr<const Mix<Real>>>(&node.info);
    if (!mix) continue;
    auto* a = static_cast<Variable<Real>*>((*mix)->a.variable);
    const Weights* attend = links.template alone<Weights>(a);
    if (!attend || (*attend)->extra || a->root() != out((*attend)->a)) continue;
    const Attend<Real>& from = **attend;
    // Narrower heads of weights without exp are read by chunks, but for a few.
    const bool linear = from.kernel == Kernel::identity && !from.normalised && from.k && from.K() > 128;
    if (from.kernel != Kernel::exp && !linear) continue;
    if (from.offset != 0 && !(from.normalised && from.eps == 0 && !from.sink)) continue;  // else rows lose it
    AttendMix<Real> op;
    op.normalised = from.normalised, op.strict = from.strict, op.before = from.before;
    op.eps = from.eps, op.scale = from.scale, op.window = from.window;
    op.products = graph.products(), op.linear = linear;
    op.x = from.x, op.k = from.k, op.v = (*mix)->v;
    op.log_decay = from.log_decay, op.slope = from.slope, op.sink = from.sink;
    op.position = from.position;
    if (op.Q() < (op.products == Precision::bf16 ? kFewestInBf16 : kFewest) || !op.fits_tiles()) continue;
    op.o.variable = node.outputs[0];
    replace(graph, {links.maker(a), &node}, [&] { graph.add(op); });
    return true;
  }
  return false;
}

/// (silu(x G^T) * (x U^T)) D^T without biases, where nobody else reads what lies between; weights are leaves.
template <class Real>
bool swiglu_once(Graph<Real>& graph) {
  const Links<Real> links(graph);
  const auto plain = [&](const Linear<Real>* map) {
    return map && !map->b && map->precision == graph.products() && !links.made(of(map->w));
  };
  for (auto& node : graph.nodes()) {
    const auto* down = op_of<Real, Linear<Real>>(node);
    if (!plain(down)) continue;
    const auto* both = links.template alone_op<Combine<Real>>(of(down->x));
    if (!both || both->kind != CombineKind::multiply) continue;
    const auto* silu = links.template alone_op<Map<Real>>(of(both->a));
    const auto* up = links.template alone_op<Linear<Real>>(of(both->b));
    if (!silu || silu->map != MapKind::silu || silu->scale != 1 || silu->shift != 0 || !plain(up)) continue;
    const auto* gate = links.template alone_op<Linear<Real>>(of(silu->x));
    if (!plain(gate) || of(gate->x)->root() != of(up->x)->root()) continue;
    const bool leaves_differ = of(gate->w)->root() != of(up->w)->root() &&
                               of(gate->w)->root() != of(down->w)->root() &&
                               of(up->w)->root() != of(down->w)->root();
    Swiglu<Real> op;
    op.device = graph.device();
    op.x = gate->x, op.gate = gate->w, op.up = up->w, op.down = down->w;
    if (!leaves_differ || op.down.value.dim(0) != op.W() || !op.covers(graph.products())) continue;
    op.y.variable = node.outputs[0];
    const auto made = [&](const auto& field) { return links.maker(of(field)); };
    replace(graph, {made(silu->x), made(both->b), made(both->a), made(down->x), &node},
            [&] { graph.add(op); });
    return true;
  }
  return false;
}

/// Linear maps of x as one node, where the first of them stood. In float only those that its tiles take, then
/// even one alone; weights are leaves, each read once.
template <class Real>
bool joined_linear_once(Graph<Real>& graph) {
  using Map = std::shared_ptr<const Linear<Real>>;
  const Links<Real> links(graph);
  const auto variable = [](void* v) { return static_cast<Variable<Real>*>(v); };
  auto& nodes = graph.nodes();
  for (std::size_t first = 0; first < nodes.size(); ++first) {
    JoinedLinear<Real> op;
    op.device = graph.device();
    std::set<std::size_t> chain;
    std::set<Variable<Real>*> leaves;
    for (std::size_t i = first; i < nodes.size() && op.outputs < op.kMost; ++i) {
      const Map* map = std::any_cast<Map>(&nodes[i].info);
      if (!map && i == first) break;
      if (!map) continue;
      const Linear<Real>& one = **map;
      Variable<Real>*x = variable(one.x.variable), *w = variable(one.w.variable),
      *b = variable(one.b.variable);
      if (i == first) op.x = one.x, op.precision = one.precision;
      if (x->root() != variable(op.x.variable)->root() || one.precision != op.precision ||
          x->value.columns() != op.x.value.columns() || links.made(w) || (b && links.made(b)) ||
          leaves.count(w->root()) || (b && leaves.count(b->root())))
        continue;
      op.w[op.outputs] = one.w, op.b[op.outputs] = one.b;
      op.y[op.outputs++].variable = nodes[i].outputs[0];
      if (sizeof(Real) == sizeof(float) && op.slabs().count == 0) {
        op.w[--op.outputs] = {}, op.b[op.outputs] = {}, op.y[op.outputs] = {};
        continue;
      }
      leaves.insert(w->root());
      if (b) leaves.insert(b->root());
      chain.insert(i);
    }
    if (chain.size() < (sizeof(Real) == sizeof(float) ? 1 : 2)) continue;
    for (const std::size_t i : chain)
      for (std::size_t j = 1; j < nodes[i].outputs.size(); ++j)
        nodes[i].outputs[j]->owned = false;  // workspace
    put_in_place(graph, chain, *chain.begin(), [&] { graph.add(op); });
    return true;
  }
  return false;
}

/// A norm whose rows one gain a column alone multiplies.
template <class Real>
bool gained_norm_once(Graph<Real>& graph) {
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* product = op_of<Real, Combine<Real>>(node);
    if (!product || product->kind != CombineKind::multiply || links.made(of(product->a))) continue;
    const auto* rows = links.template alone_op<Normalize<Real>>(of(product->b));
    const int D = product->y.value.columns();
    if (!rows || (rows->norm != RowNorm::rms && rows->norm != RowNorm::layer) ||
        product->a.value.size() != D || product->a.value.columns() != D || rows->x.value.columns() != D)
      continue;
    ResidualNorm<Real> op;
    op.norm = rows->norm, op.eps = rows->eps, op.x = rows->x;
    op.gain = in(graph.view(of(product->a), {D}));
    op.y.variable = node.outputs[0];
    replace(graph, {links.maker(of(product->b)), &node}, [&] { graph.add(op); });
    return true;
  }
  return false;
}

/// A norm that one gate alone multiplies, which nobody else reads.
template <class Real>
bool gated_norm_once(Graph<Real>& graph) {
  const Links<Real> links(graph);
  for (auto& node : graph.nodes()) {
    const auto* product = op_of<Real, Combine<Real>>(node);
    if (!product || product->kind != CombineKind::multiply) continue;
    const Tensor<Real>&gate = product->a.value, &y = product->y.value;
    const auto* map = links.template alone_op<Map<Real>>(of(product->a));
    const auto* norm = links.template alone_op<ResidualNorm<Real>>(of(product->b));
    if (!map || (map->map != MapKind::silu && map->map != MapKind::sigmoid) || map->scale != 1 ||
        map->shift != 0 || !norm || norm->branch || norm->gate || gate.size() != norm->x.value.size() ||
        gate.columns() != norm->x.value.columns() || y.size() != gate.size() || y.columns() != gate.columns())
      continue;
    ResidualNorm<Real> op = *norm;
    op.gate = in(graph.view(of(map->x), without_memory(gate)));
    op.gate_by = map->map == MapKind::silu ? RowGate::silu : RowGate::sigmoid;
    op.mean.variable = op.inverse.variable = op.part.variable = nullptr;
    op.y = {}, op.y.variable = node.outputs[0];
    replace(graph, {links.maker(of(product->a)), links.maker(of(product->b)), &node}, [&] { graph.add(op); });
    return true;
  }
  return false;
}

}  // namespace

const std::vector<std::string>& pass_names() {
  static const std::vector<std::string> names = {"table_scores", "attend_mix", "swiglu", "joined_linear",
                                                 "gained_norm",  "map_chain",  "rounded"};
  return names;
}

void switch_off_passes(const std::set<std::string>& names) { switched_off() = names; }

template <class Real>
int run_pass(Graph<Real>& graph, const std::string& name) {
  int count = 0;
  if (name == "table_scores") {
    while (table_scores_once(graph)) ++count;
  } else if (name == "attend_mix") {
    while (attend_mix_once(graph)) ++count;
  } else if (name == "swiglu") {
    while (swiglu_once(graph)) ++count;
  } else if (name == "joined_linear") {
    while (joined_linear_once(graph)) ++count;
  } else if (name == "gained_norm") {
    while (gained_norm_once(graph)) ++count;
    while (gated_norm_once(graph)) ++count;
  } else if (name == "map_chain") {
    while (map_chain_once(graph)) ++count;
  } else if (name == "rounded") {
    count = round_variables(graph);
  } else {
    throw std::logic_error("[passes] there is no pass " + name);
  }
  return count;
}

template <class Real>
void run_passes(Graph<Real>& graph) {
  if (graph.device() != Device::cuda) return;
  for (const std::string& name : pass_names())
    if (switched_off().count(name) == 0) run_pass(graph, name);
}

template int run_pass(Graph<float>&, const std::string&);
template int run_pass(Graph<double>&, const std::string&);
template void run_passes(Graph<float>&);
template void run_passes(Graph<double>&);

}  // namespace crosstalk
