// The pass map_chain. A chain grows from its first node: a node joins if it reads what the chain reads or makes, and if all that
// the chain reads is still made before others read what it makes.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/map_chain_pass.h"

#include <map>
#include <optional>
#include <set>

#include "kernels/elementwise/map_chain.h"
#include "kernels/feature_map/feature_map.h"
#include "kernels/norm/normalize.h"
#include "models/graph/pass_links.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kManyNumbers = 1 << 16;  // of a number a row that stands in all of its columns
constexpr std::int64_t kFewestNumbers =
    32;  // of parameters that fewer hold, the chain that reads them takes their maps

/// A node as a step of a chain.
template <class Real>
struct Member {
  ChainStep step;
  In<Real> a, b;
  Tensor<Real> y;        ///< of the chain's shape, but of a sum over rows
  bool of_rows = false;  ///< looks at rows: its shape is the chain's
};

std::optional<MapKind> as_map(FeatureMap map) {
  if (map == FeatureMap::silu) return MapKind::silu;
  if (map == FeatureMap::tanh) return MapKind::tanh;
  if (map == FeatureMap::relu) return MapKind::relu;
  return {};
}

template <class Real>
std::optional<Member<Real>> member_of(const typename Graph<Real>::Node& node) {
  Member<Real> m;
  if (const auto* map = op_of<Real, Map<Real>>(node)) {
    m.step.of_a = {map->map, map->scale, map->shift};
    m.a = map->x, m.y = map->y.value;
  } else if (const auto* features = op_of<Real, MapFeatures<Real>>(node)) {
    const auto kind = as_map(features->map);
    if (!kind) return {};
    m.step.of_a.map = *kind;
    m.a = features->x, m.y = features->y.value;
  } else if (const auto* expand = op_of<Real, Expand<Real>>(node)) {
    m.a = expand->x, m.y = expand->y.value, m.of_rows = true;
  } else if (const auto* combine = op_of<Real, Combine<Real>>(node)) {
    m.step.kind = combine->kind == CombineKind::add        ? ChainKind::add
                  : combine->kind == CombineKind::multiply ? ChainKind::multiply
                                                           : ChainKind::larger;
    m.step.scale_a = combine->scale_a, m.step.scale_b = combine->scale_b;
    m.a = combine->a, m.b = combine->b, m.y = combine->y.value;
    m.of_rows = m.a.value.size() != m.y.size() || m.b.value.size() != m.y.size();
  } else if (const auto* norm = op_of<Real, Normalize<Real>>(node)) {
    if (norm->norm != RowNorm::l2 && norm->norm != RowNorm::rms) return {};
    m.step.kind = norm->norm == RowNorm::l2 ? ChainKind::l2 : ChainKind::rms;
    m.step.eps = norm->eps;
    m.a = norm->x, m.y = norm->y.value, m.of_rows = true;
  } else if (const auto* fold = op_of<Real, Fold<Real>>(node)) {
    const Tensor<Real>&x = fold->x.value, &y = fold->y.value;
    if (x.rank != 4 || y.dims[3] != 1 || !std::equal(x.dims, x.dims + 3, y.dims)) return {};
    m.step.kind = ChainKind::row_sum;
    m.a = fold->x, m.y = fold->x.value, m.of_rows = true;
  } else {
    return {};
  }
  return m;
}

/// Nodes that could be steps.
template <class Real>
using Members = std::map<std::size_t, Member<Real>>;

template <class Real>
class Chain {
 public:
  using Node = typename Graph<Real>::Node;
  Chain(Graph<Real>& graph, const Links<Real>& links, const Members<Real>& steps)
      : graph_(graph), links_(links), steps_(steps) {
    op_.device = graph.device();
  }
  /// The chain that grows from node `first`, if it has two nodes or more.
  bool grow(std::size_t first, bool with_sums) {
    for (auto [i, member] : steps_) {
      if (i < first || members_.count(i) > 0 || !touches(member)) continue;
      if (member.step.kind == ChainKind::row_sum && !with_sums) continue;
      const Chain before = *this;
      if (!join(i, member)) assign(before);
      if (members_.empty()) return false;
    }
    return (members_.size() > 1 || gains_alone()) && finish();
  }
  void replace() {
    for (const std::size_t i : members_)
      for (Variable<Real>* v : graph_.nodes()[i].outputs)
        v->root()->owned = false;  // without memory: nobody reads it any more
    for (int o = 0; o < op_.outputs; ++o) static_cast<Variable<Real>*>(op_.y[o].variable)->owned = true;
    put_in_place(graph_, members_, place(), [&] { graph_.add(op_); });
  }

 private:
  /// A norm of rows, or a number a row in all of its columns, whose kernels take four numbers a thread here; or a map that bf16 may
  /// stand before or behind (the pass rounded).
  bool gains_alone() const {
    const ChainKind kind = op_.step[0].kind;
    return kind == ChainKind::l2 || kind == ChainKind::rms ||
           (kind == ChainKind::map && op_.inputs == 1 && op_.is_of_rows(0) && op_.size() >= kManyNumbers) ||
           (kind == ChainKind::map && op_.inputs == 1 && op_.whole(0) && sizeof(Real) == sizeof(float) &&
            graph_.products() == Precision::bf16 && op_.D() % 8 == 0);
  }
  void assign(const Chain& other) {
    op_ = other.op_, shaped_ = other.shaped_;
    members_ = other.members_, registers_ = other.registers_, made_ = other.made_;
  }
  /// Tells whether a node works on the numbers of the chain and shares one of its variables.
  bool touches(const Member<Real>& m) const {
    const auto known = [&](const In<Real>& x) { return x && registers_.count(of(x)->root()) > 0; };
    return members_.empty() ? m.y.size() >= kFewestNumbers
                            : m.y.size() == op_.size() && (known(m.a) || known(m.b));
  }
  bool join(std::size_t i, const Member<Real>& m) {
    const bool first = members_.empty();
    if (first || (m.of_rows && !shaped_)) {
      if (m.y.rank > 4) return false;
      std::fill_n(op_.dims, 4, 1);
      std::copy_n(m.y.dims, m.y.rank, op_.dims + 4 - m.y.rank);
      shaped_ = m.of_rows;
    } else if (m.of_rows && (m.y.rank != 4 || !std::equal(op_.dims, op_.dims + 4, m.y.dims))) {
      return false;
    }
    if (m.y.size() != op_.size() || !take(m.a) || (m.b && !take(m.b))) return false;
    ChainStep step = m.step;
    step.a = registers_.at(of(m.a)->root());
    step.b = m.b ? registers_.at(of(m.b)->root()) : 0;
    read_through(m.a, step.a, step.of_a);
    if (m.b) read_through(m.b, step.b, step.of_b);
    return add(i, step) && covered() && is_in_order();
  }
  /// An operand that a map makes for this step alone is read through that map; finish() drops the map.
  void read_through(const In<Real>& x, int& n, OperandMap& map) const {
    Variable<Real>* v = of(x)->root();
    while (n >= op_.inputs && map.map == MapKind::affine && op_.step[n - op_.inputs].kind == ChainKind::map &&
           links_.readers(v) == 1 && !v->kept) {
      const ChainStep& made = op_.step[n - op_.inputs];
      map = {made.of_a.map, map.scale * made.of_a.scale, map.scale * made.of_a.shift + map.shift};
      n = made.a;
      for (const auto& [variable, at] : registers_)
        if (at == n) v = variable;
    }
  }
  /// Gives an operand a register: it is made here, or by a node that joins too, or a new input, through maps of what is small.
  bool take(const In<Real>& x) {
    Variable<Real>* const v = of(x);
    const bool whole = x.value.size() == op_.size();
    if (const auto found = registers_.find(v->root()); found != registers_.end()) {
      if (whole) return true;
      // Repeated in one way only.
      const int n = found->second;
      if (n >= op_.inputs)
        return x.value.rank == 4 && x.value.dims[3] == 1 && x.value.size() * op_.D() == op_.size();
      return x.value.rank == 4 && std::equal(x.value.dims, x.value.dims + 4, op_.x[n].value.dims);
    }
    if (whole && links_.made(v)) {
      const auto made = steps_.find(links_.place(v));
      const Chain before = *this;
      if (made != steps_.end() && made->second.step.kind != ChainKind::row_sum && !members_.empty() &&
          join(made->first, made->second))
        return true;
      assign(before);
    }
    if (const auto* map = whole ? nullptr : links_.template alone_op<Map<Real>>(v)) {
      In<Real> inner = map->x;
      inner.value.rank = x.value.rank;  // as the reader sees it
      std::copy_n(x.value.dims, Tensor<Real>::kMaxRank, inner.value.dims);
      if (!take(inner)) return false;
      ChainStep step;
      step.of_a = {map->map, map->scale, map->shift};
      step.a = registers_.at(of(inner)->root());
      return add(links_.place(v), step);
    }
    if (op_.inputs == MapChain<Real>::kMostInputs) return false;
    // Registers of steps stand behind those of inputs.
    for (int s = 0; s < op_.steps; ++s)
      for (int* place : {&op_.step[s].a, &op_.step[s].b}) *place += *place >= op_.inputs;
    for (auto& [variable, n] : registers_) n += n >= op_.inputs;
    op_.x[op_.inputs] = in(v);
    op_.x[op_.inputs].value = whole ? op_.whole_shape(graph_.replicas()) : x.value;
    registers_[v->root()] = op_.inputs++;
    return true;
  }
  bool add(std::size_t i, const ChainStep& step) {
    if (op_.steps == MapChain<Real>::kMostSteps) return false;
    op_.step[op_.steps] = step;
    members_.insert(i);
    Variable<Real>* made = graph_.nodes()[i].outputs[0]->root();
    registers_[made] = op_.inputs + op_.steps++;
    made_.emplace_back(made, i);
    return true;
  }
  bool covered() const {
    for (int i = 0; i < op_.inputs; ++i)
      if (!op_.whole(i) && !broadcasts(op_.whole_shape(graph_.replicas()), op_.x[i].value)) return false;
    return op_.covers();
  }
  /// Node before which the chain can stand: the first of others that read what it makes.
  std::size_t place() const {
    std::size_t at = graph_.nodes().size();
    for (const auto& [made, node] : made_)
      for (const std::size_t reader : links_.read_at(made))
        if (members_.count(reader) == 0) at = std::min(at, reader);
    return at;
  }
  /// Tells whether all that the chain reads is made before its place.
  bool is_in_order() const {
    const std::size_t at = place();
    for (int i = 0; i < op_.inputs; ++i)
      if (links_.made(of(op_.x[i])) && links_.place(of(op_.x[i])) >= at) return false;
    return true;
  }
  /// Names what others read. False where they read sums over rows, or more than there is room for.
  bool finish() {
    const auto& nodes = graph_.nodes();
    for (const auto& [made, node] : made_) {
      const auto& readers = links_.read_at(made);
      const bool outside = std::any_of(readers.begin(), readers.end(),
                                       [&](std::size_t reader) { return members_.count(reader) == 0; });
      if (!outside && !made->kept) continue;
      Variable<Real>* y = nodes[node].outputs[0]->root();
      if (y->value.size() != op_.size() || op_.outputs == MapChain<Real>::kMostOutputs) return false;
      op_.made_by[op_.outputs] = registers_.at(made);
      op_.y[op_.outputs++].variable = y;
    }
    for (const std::size_t i : members_) {  // what a norm divided by
      for (std::size_t o = 1; o < nodes[i].outputs.size(); ++o)
        if (links_.readers(nodes[i].outputs[o]) > 0 || nodes[i].outputs[o]->root()->kept) return false;
    }
    drop_unread();
    for (int i = 0; i < op_.inputs; ++i) {
      const Tensor<Real> shape = op_.x[i].value;
      op_.x[i] = in(graph_.view(of(op_.x[i]), shape));
    }
    return op_.outputs > 0 && op_.covers();
  }

  /// Steps whose registers nothing reads.
  void drop_unread() {
    std::set<int> read(op_.made_by, op_.made_by + op_.outputs);
    for (int s = op_.steps - 1; s >= 0; --s) {
      if (read.count(op_.inputs + s) == 0) continue;
      read.insert(op_.step[s].a);
      if (has_two(op_.step[s].kind)) read.insert(op_.step[s].b);
    }
    std::map<int, int> next;
    for (int i = 0; i < op_.inputs; ++i) next[i] = i;
    int kept = 0;
    for (int s = 0; s < op_.steps; ++s) {
      if (read.count(op_.inputs + s) == 0) continue;
      ChainStep step = op_.step[s];
      step.a = next.at(step.a);
      step.b = has_two(step.kind) ? next.at(step.b) : 0;
      next[op_.inputs + s] = op_.inputs + kept;
      op_.step[kept++] = step;
    }
    op_.steps = kept;
    for (int o = 0; o < op_.outputs; ++o) op_.made_by[o] = next.at(op_.made_by[o]);
  }

  Graph<Real>& graph_;
  const Links<Real>& links_;
  const Members<Real>& steps_;
  MapChain<Real> op_;
  bool shaped_ = false;
  std::set<std::size_t> members_;
  std::map<Variable<Real>*, int> registers_;
  std::vector<std::pair<Variable<Real>*, std::size_t>> made_;  ///< by steps: what and at which node
};

}  // namespace

template <class Real>
bool map_chain_once(Graph<Real>& graph) {
  const Links<Real> links(graph);
  Members<Real> steps;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (auto member = member_of<Real>(graph.nodes()[i])) steps.emplace(i, *member);
  for (const auto& [first, member] : steps)
    for (const bool with_sums : {true, false}) {
      Chain<Real> chain(graph, links, steps);
      if (!chain.grow(first, with_sums)) continue;
      chain.replace();
      return true;
    }
  return false;
}

template bool map_chain_once(Graph<float>&);
template bool map_chain_once(Graph<double>&);

}  // namespace crosstalk
