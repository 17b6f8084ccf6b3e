// SPDX-License-Identifier: Apache-2.0
#include "models/engines.h"

#include <stdexcept>

#include "kernels/attention/delta_values.h"
#include "kernels/attention/solve.h"
#include "kernels/base/error.h"
#include "kernels/elementwise/pick.h"
#include "kernels/law/diagonal_read.h"
#include "kernels/recurrence/read_weights.h"
#include "kernels/recurrence/scan.h"
#include "models/engine_doors.h"
#include "models/graph/nodes.h"
#include "models/parts/carried.h"
#include "models/parts/implicit_filter.h"
#include "models/parts/tokens.h"

namespace crosstalk {
namespace {

template <class Real>
int writes_a_token(const Mixer<Real>& m, const Recurrence<Real>& r) {
  return r.writes > 0 ? r.writes : m.N;
}

template <class Real>
Var<Real> ones(Mixer<Real>& m, std::initializer_list<Dimension> dims) {
  return expand(m.constant([](int) { return 1.0; }), dims);
}

// g as [B,T,H,1] or [B,T,H,K], or absent.
template <class Real>
Var<Real> full_log_decay(Mixer<Real>& m, const Recurrence<Real>& r) {
  const Var<Real> g = r.decay ? log(r.decay) : r.log_decay;
  return g ? expand(g, {m.B, m.T, r.key.dim(2), g.dim(3)}) : g;
}

/// Rows divided by their lengths; a zero has none and stays.
template <class Real>
Var<Real> direction(Var<Real> x) {
  return {x.graph, normalize(*x.graph, RowNorm::l2, 0, x.variable)};
}

template <class Real>
Var<Real> weights_of(Mixer<Real>& m, Var<Real> x, Var<Real> k, const Attention& how,
                     const Terms<Real>& terms) {
  if (how.cosine) x = direction(x), k = direction(k);
  Attend<Real> op;
  op.offset = how.offset;
  op.kernel = how.kernel, op.normalised = how.normalised, op.eps = how.eps, op.scale = how.scale,
  op.strict = how.strict, op.before = how.before, op.window = how.window, op.order = how.order,
  op.digits = how.digits;
  op.x = in(x), op.k = in(k);
  if (terms.log_decay) op.log_decay = in(expand(terms.log_decay, {m.B, m.T, m.H, 1}));
  op.slope = in(terms.slope), op.sink = in(terms.sink), op.extra = in(terms.extra);
  if (!terms.between_tokens) op.position = ids(m.position());
  return {&m.graph, out(m.graph.add(op).a)};
}

template <class Real>
Var<Real> start_of(Mixer<Real>& m, const Recurrence<Real>& r) {
  return r.part ? r.part->start : m.start(r.state);
}

template <class Real>
ReadFacts facts_of(const Mixer<Real>& m, const Recurrence<Real>& r) {
  ReadFacts f;
  f.kind = {.channel_decay = r.log_decay && r.log_decay.dim(3) > 1,
            .value_decay = static_cast<bool>(r.value_log_decay),
            .several_writes = writes_a_token(m, r) > 1,
            .erase = r.erase};
  f.cuda = m.graph.device() == Device::cuda, f.single = sizeof(Real) == sizeof(float);
  f.products = m.graph.products();
  f.B = m.B, f.H = m.H, f.T = m.T, f.Q = m.Q, f.K = r.key.dim(3), f.V = m.V;
  f.values = r.value ? static_cast<std::int64_t>(r.value.dim(3)) : f.V;
  f.chunk = state_chunk(m.K, m.V, f.products);
  f.own_heads = r.key.dim(2) == m.H;
  f.decays = r.decay || r.log_decay, f.gained = static_cast<bool>(r.gain);
  f.before = r.before, f.of_ones = r.of_ones;
  f.from_weights = m.batch() || m.wants_weights();
  f.at_tokens = m.at_tokens(), f.between_tokens = r.between_tokens;
  return f;
}

/// Heads are those of the key: rows of a state that fade on their own are heads (read_rows).
template <class Real>
Var<Real> state_read(Mixer<Real>& m, StateForm form, Var<Real> q, const Recurrence<Real>& r,
                     Var<Real> log_decay, Var<Real> values, const char* state, bool ends = true,
                     Var<Real> end_factor = {}) {
  const Size H = r.key.dim(2), K = r.key.dim(3), V = values.dim(3);
  const int cuts = form == StateForm::chunkwise ? cuts_of_values(facts_of(m, r), V) : 1;
  if (cuts > 1) {
    const auto repeated = [&](Var<Real> x) { return x ? repeated_heads(x, cuts) : x; };
    Recurrence<Real> cut = r;
    for (Var<Real>* x : {&cut.key, &cut.gain, &cut.erase_read, &cut.erase_write, &cut.erase_gain})
      *x = repeated(*x);
    const Var<Real> o =
        state_read(m, form, repeated(q), cut, repeated(log_decay),
                   view(values, {m.B, values.dim(1), H * cuts, V / cuts}), state, ends, end_factor);
    return view(o, {m.B, o.dim(1), H, V});
  }
  StateRead<Real> op;
  op.device = m.graph.device();
  op.form = form;
  op.products = m.graph.products();
  op.erase = r.erase;
  op.writes = writes_a_token(m, r);
  op.decayed = r.decayed;
  op.before = r.before;
  op.q = in(q), op.k = in(r.key), op.v = in(values);
  op.write_gain = in(r.gain), op.log_decay = in(log_decay);
  op.erase_read = in(r.erase_read), op.erase_write = in(r.erase_write), op.erase_gain = in(r.erase_gain);
  const bool is_part = r.part && state == r.state;
  if (const Var<Real> start = is_part ? r.part->start : m.start(state))
    op.start = in(view(start, {m.B, H, V, K}));
  if (!r.between_tokens) op.position = ids(m.position());
  ends = ends && m.wants_end();
  if (ends) op.end.value = shaped<Real>(m.graph.replicas(), {m.B, H, V, K});
  const auto& added = m.graph.add(op);
  if (ends) {
    const Var<Real> end = view(Var<Real>{&m.graph, out(added.end)}, {m.B, m.H, H / m.H * V, K});
    const Var<Real> scaled = end_factor ? end * view(end_factor, {m.B, m.H, 1, end_factor.dim(3)}) : end;
    if (is_part) {
      r.part->end = scaled;
    } else {
      m.end(state, scaled);
    }
  }
  return {&m.graph, out(added.o)};
}

template <class Real>
Var<Real> values_of(Mixer<Real>& m, const Recurrence<Real>& r) {
  if (r.value) return r.value;
  return r.of_ones ? ones(m, {m.B, m.T * writes_a_token(m, r), m.H, 1}) : m.values();
}

/// Rows that fade on their own as an op of their own, where a GPU has a form for it.
template <class Real>
std::optional<DiagonalRead<Real>> in_registers(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r) {
  const Var<Real> v = values_of(m, r), g = full_log_decay(m, r);
  const Size H = r.key.dim(2), K = r.key.dim(3), V = v.dim(3);
  DiagonalRead<Real> op;
  op.device = m.graph.device();
  op.q = in(q), op.k = in(r.key), op.v = in(v), op.row_log_decay = in(r.value_log_decay);
  if (g) op.column_log_decay = in(expand(g, {m.B, m.T, H, K}));
  if (!r.between_tokens) op.position = ids(m.position());
  if (const Var<Real> start = start_of(m, r)) op.start = in(view(start, {m.B, H, V, K}));
  return choose_form(op) ? std::optional(op) : std::nullopt;
}

template <class Real>
Var<Real> read_registers(Mixer<Real>& m, const Recurrence<Real>& r, DiagonalRead<Real> op) {
  const Size H(op.H()), K(op.K()), V(op.V());
  if (r.gain) op.k = in(r.gain * r.key);
  if (m.wants_end()) op.end.value = shaped<Real>(m.graph.replicas(), {m.B, H, V, K});
  const auto& added = m.graph.add(op);
  if (m.wants_end()) {
    const Var<Real> end = view(Var<Real>{&m.graph, out(added.end)}, {m.B, m.H, H / m.H * V, K});
    if (r.part) {
      r.part->end = end;
    } else {
      m.end(r.state, end);
    }
  }
  return {&m.graph, out(added.o)};
}

// A row of the state that fades on its own is a head whose values are single numbers.
template <class Real>
Var<Real> read_rows(Mixer<Real>& m, StateForm form, Var<Real> q, const Recurrence<Real>& r) {
  const Var<Real> v = values_of(m, r);
  const Size B = m.B, H = m.H, V = v.dim(3);
  const auto repeated = [&](Var<Real> x) { return repeated_heads(x, V); };
  Recurrence<Real> rows = {.key = repeated(r.key), .before = r.before, .state = r.state, .part = r.part};
  if (r.gain) rows.gain = repeated(r.gain);
  Var<Real> g = view(r.value_log_decay, {B, m.T, H * V, 1});
  if (const Var<Real> of_keys = full_log_decay(m, r)) g = g + repeated(of_keys);
  const Var<Real> o =
      state_read(m, form, repeated(q), rows, g, view(v, {B, m.T * writes_a_token(m, r), H * V, 1}), r.state);
  return view(o, {B, m.Q, H, V});
}

/// Weights of all pairs of tokens: of what is read, and of what each token takes out before it writes, times a gain.
template <class Real>
struct PairWeights {
  Var<Real> read = {}, taken = {}, gain = {};  // taken, gain: or absent
  Var<Real> solved() const { return taken ? solve(read, taken, gain) : read; }
};

template <class Real>
PairWeights<Real> pair_weights(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real> log_decay,
                               bool read_alone = false) {
  const Attention linear{.kernel = Kernel::identity, .normalised = false};
  Attention strict = linear,
            before = linear;  // before: as strict, and what the own token fades is not yet felt
  strict.strict = true;
  before.before = true;
  const Var<Real> a = attend(m, q, r.key, r.before ? before : linear, log_decay);
  if (r.erase == Erase::none || read_alone) return {a};
  const Var<Real> x = r.erase == Erase::delta ? r.key : r.erase_read;
  const Var<Real> b = attend(m, x, r.key, r.decayed ? strict : before, log_decay, {}, true);
  return {a, b, r.erase == Erase::delta ? r.gain : r.erase_gain};
}

/// What a delta rule without decays writes, chunk by chunk.
template <class Real>
Var<Real> delta_values(Mixer<Real>& m, const Recurrence<Real>& r) {
  DeltaValues<Real> op;
  op.k = in(r.key), op.v = in(values_of(m, r)), op.gain = in(r.gain);
  return {&m.graph, out(m.graph.add(op).u)};
}

/// What an erase leaves to write, by all pairs of tokens.
template <class Real>
Var<Real> solved_values(Mixer<Real>& m, const Recurrence<Real>& r, const PairWeights<Real>& pairs) {
  SolveValues<Real> op;
  op.gained = r.gain && r.gain.variable == pairs.gain.variable;
  const Var<Real> v = values_of(m, r);
  op.v = in(r.gain && !op.gained ? r.gain * v : v), op.l = in(pairs.taken), op.gain = in(pairs.gain);
  return {&m.graph, out(m.graph.add(op).u)};
}

// With P_t the product of the signs up to token t, S_t Diag(P_t) is the state of a recurrence without signs
// whose keys and queries are multiplied by P. The product at the last token gives the state its signs back.
template <class Real>
Recurrence<Real> without_signs(Mixer<Real>& m, Var<Real>& q, Recurrence<Real> r, Var<Real>& last) {
  if (writes_a_token(m, r) > 1 || !r.decayed || r.before || r.value_log_decay)
    throw std::logic_error(
        "[engines] signs of decays want one write a token, reads of the decayed state, and rows that stay");
  Signs<Real> op;
  op.x = in(r.sign);
  const Var<Real> product{&m.graph, out(m.graph.add(op).y)};
  if (m.wants_end()) last = last_token(product);
  q = m.at_queries(product) * q;
  for (Var<Real>* key : {&r.key, &r.erase_read, &r.erase_write})
    if (*key) *key = product * *key;
  r.sign = {};
  return r;
}

template <class Real>
ReadWeights<Real> weights_op(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r) {
  ReadWeights<Real> op;
  op.device = m.graph.device();
  op.products = m.graph.products();
  op.erase = r.erase;
  op.writes = writes_a_token(m, r);
  op.decayed = r.decayed;
  op.before = r.before;
  op.contracting = r.contracting;
  op.q = in(q), op.k = in(r.key), op.write_gain = in(r.gain);
  if (r.decay) {
    op.decay = in(expand(r.decay, {m.B, m.T, m.H, 1}));
  } else {
    op.log_decay = in(full_log_decay(m, r));
  }
  if (r.erase_read.variable != r.key.variable) op.erase_read = in(r.erase_read);
  op.erase_write = in(r.erase_write), op.erase_gain = in(r.erase_gain);
  op.position = ids(m.position());
  return op;
}

/// The op, by a form of it for many queries where a GPU has one.
template <class Real>
std::optional<ReadWeights<Real>> in_tiles(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r) {
  if (m.graph.device() == Device::cpu || m.graph.products() != Precision::bf16) return {};
  const ReadWeights<Real> op = weights_op(m, q, r);
  return choose_form(op) ? std::optional(op) : std::nullopt;
}

template <class Real>
Var<Real> query_weights(Mixer<Real>& m, Door door, Var<Real> q, const Recurrence<Real>& r) {
  if (door == Door::scores)
    return weights_of(m, q, r.key, {.kernel = Kernel::identity, .normalised = false, .before = r.before}, {});
  return {&m.graph, out(m.graph.add(weights_op(m, q, r)).a)};
}

}  // namespace

template <class Real>
Var<Real> read_weights(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real>* gain) {
  ReadFacts facts = facts_of(m, r);
  std::optional<Recurrence<Real>> all_pairs;
  const auto of_pairs = [&] {
    if (all_pairs) return *all_pairs;
    all_pairs = r;
    if (r.gain) all_pairs->gain = expand(r.gain, {m.B, m.T, m.H, 1});
    all_pairs->log_decay = full_log_decay(m, r), all_pairs->decay = {};
    return *all_pairs;
  };
  std::optional<ReadWeights<Real>> tiles;
  facts.has_form = [&] { return (tiles = in_tiles(m, q, of_pairs())).has_value(); };
  const Door door = door_of_weights(facts);
  if (door == Door::tiles) return {&m.graph, out(m.graph.add(*tiles).a)};
  if (door == Door::one_hot) {
    Recurrence<Real> apart = r;
    PartOfState<Real> empty;
    apart.part = &empty;
    const Var<Real> own = expand(one_hot_tokens(m), {m.B, m.T, m.H, m.T});
    return swap(state_read(m, StateForm::chunkwise, q, apart, full_log_decay(m, r), own, apart.state, false));
  }
  if (door != Door::pairs) return query_weights(m, door, q, r);
  const Recurrence<Real> here = of_pairs();
  const Var<Real> weights = pair_weights(m, q, here, here.log_decay).solved();
  if (gain) *gain = here.gain;
  return here.gain && !gain ? weights * view(swap(here.gain), {m.B, m.H, 1, m.T}) : weights;
}

namespace {

/// What a recurrence of values of 1 reads, [B,Q,H,1]: keys added up token after token, times queries. Chunks would make a state
/// of as many values as keys.
template <class Real>
Var<Real> read_sum(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real> log_decay) {
  const Size K = r.key.dim(3);
  const Var<Real> sums =
      scan(log_decay ? expand(log_decay, {m.B, m.T, m.H, K}) : log_decay, r.gain ? r.gain * r.key : r.key);
  return fold(q * (r.between_tokens ? sums : m.at_queries(sums)), {m.B, q.dim(1), m.H, 1});
}

/// A read from states, by one of their doors.
template <class Real>
Var<Real> read_states(Mixer<Real>& m, const DoorOf& by, Var<Real> q, const Recurrence<Real>& r,
                      Var<Real> log_decay, Var<Real> end_factor = {}) {
  if (by.door == Door::key_sum) return read_sum(m, q, r, log_decay);
  const StateForm walk = by.form == Form::chunk ? StateForm::chunkwise : StateForm::recurrent;
  return state_read(m, walk, q, r, log_decay, values_of(m, r), r.state, true, end_factor);
}

/// A read from weights and what they leave out: the state before the first token, in which reads are linear.
template <class Real>
Var<Real> read_from_start(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real> weights,
                          Var<Real> gain, Var<Real> log_decay, std::optional<double> eps) {
  const Size M = m.T * writes_a_token(m, r);
  Var<Real> o = m.mix(weights, {}, gain, r.value);
  const Var<Real> nothing = expand(m.constant([](int) { return 0.0; }), {m.B, M, m.H, o.dim(3)});
  o = o + state_read(m, StateForm::recurrent, q, r, log_decay, nothing, r.state, false);
  if (!eps) return o;
  if (gain) weights = weights * view(swap(gain), {m.B, m.H, 1, M});
  Var<Real> divisor = swap(fold(weights, {m.B, m.H, m.Q, 1}));
  if (m.start("z"))
    divisor = divisor + state_read(m, StateForm::recurrent, q, r, log_decay, fold(nothing, {m.B, M, m.H, 1}),
                                   "z", false);
  return o * map(MapKind::reciprocal, *eps + divisor);
}

template <class Real>
Var<Real> read_by_door(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& given,
                       std::optional<double> eps = {}, Var<Real> end_factor = {}) {
  Recurrence<Real> r = given.sign ? without_signs(m, q, given, end_factor) : given;
  const Size M = m.T * writes_a_token(m, r);
  for (auto [gate, steps] : {std::pair{&r.gain, M}, {&r.erase_gain, M}, {&r.decay, m.T}})
    if (*gate && gate->dim(1) * gate->dim(0) * gate->dim(2) < m.B * steps * m.H)
      *gate = expand(*gate, {m.B, steps, m.H, 1});
  const auto facts_with_state = [&](const Recurrence<Real>& of) {
    ReadFacts f = facts_of(m, of);
    f.starts = static_cast<bool>(start_of(m, of)), f.keeps = f.starts || of.part || m.wants_end();
    return f;
  };
  ReadFacts facts = facts_with_state(r);
  facts.divided = eps.has_value();
  if (m.has("form")) facts.asked = form_of(m.text("form"));
  std::optional<DiagonalRead<Real>> registers;
  facts.has_form = [&] {
    if (!r.value_log_decay)
      return DeltaValues<Real>::takes(static_cast<int>(facts.K), static_cast<int>(facts.values));
    return (registers = in_registers(m, q, r)).has_value();
  };
  const DoorOf* by = door_of_read(facts);
  if (!by)
    throw OptionError(
        "memory.form",
        std::string("memory.form = \"") + name_of(facts.asked) +
            "\" does not cover this memory: its decay has channels or belongs to values, it writes several "
            "times a token, or it erases what it does not write; use \"recurrent\" or \"chunk\"");
  if (by->door == Door::registers) return read_registers(m, r, *registers);
  if (by->door == Door::rows)
    return read_rows(m, by->form == Form::chunk ? StateForm::chunkwise : StateForm::recurrent, q, r);
  const std::initializer_list<std::pair<const char*, Var<Real>>> named = {
      {"write_key", r.key},        {"write_gain", r.gain},       {"log_decay", r.log_decay},
      {"decay", r.decay},          {"erase_read", r.erase_read}, {"erase_write", r.erase_write},
      {"erase_gain", r.erase_gain}};
  for (const auto& [name, x] : named)
    if (x) m.note(name, x);
  const auto with_ones = [&] {  // what divides
    Recurrence<Real> sum = r;
    sum.value = {}, sum.of_ones = true, sum.state = "z", sum.part = nullptr;
    return sum;
  };
  // States that a form without any must still give (crosstalk apply).
  const auto carry = [&](Var<Real> log_decay) {
    if (!m.wants_end()) return;
    const DoorOf walk = {Door::walk, Form::recurrent};
    read_states(m, walk, q, r, log_decay, end_factor);
    if (eps) read_states(m, walk, q, with_ones(), log_decay);
  };
  if (by->form == Form::query) {
    const Var<Real> weights = query_weights(m, by->door, q, r);
    carry(full_log_decay(m, r));
    if (facts.starts) return read_from_start(m, q, r, weights, {}, full_log_decay(m, r), eps);
    // The sum rule divides where it gathers, the others before.
    if (!eps || by->door == Door::scores) return m.mix(weights, eps, {}, r.value);
    return m.mix({&m.graph, normalize(m.graph, RowNorm::sum, *eps, weights.variable)}, {}, {}, r.value);
  }
  const Var<Real> log_decay = full_log_decay(m, r);
  if (by->form == Form::parallel) {
    const Var<Real> u = by->door == Door::delta_values ? delta_values(m, r) : Var<Real>{};
    const PairWeights<Real> pairs = pair_weights(m, q, r, log_decay, static_cast<bool>(u));
    carry(log_decay);
    if (u) return m.mix(pairs.read, {}, {}, u);
    if (by->door == Door::solve_values) return m.mix(pairs.read, {}, {}, solved_values(m, r, pairs));
    Var<Real> weights = pairs.solved();
    if (facts.starts) return read_from_start(m, q, r, weights, r.gain, log_decay, eps);
    if (eps && r.gain) weights = weights * view(swap(r.gain), {m.B, m.H, 1, m.T});
    return m.mix(weights, eps, eps ? Var<Real>{} : r.gain, r.value);
  }
  const Var<Real> o = read_states(m, *by, q, r, log_decay, end_factor);
  if (!eps) return o;
  const Recurrence<Real> sum = with_ones();
  facts = facts_with_state(sum), facts.asked = by->form;
  return o * map(MapKind::reciprocal, *eps + read_states(m, *door_of_read(facts), q, sum, log_decay));
}

}  // namespace

template <class Real>
Var<Real> read(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, std::optional<double> eps) {
  if (!r.watched) return read_by_door(m, q, r, eps);
  if (r.decay) m.watch_decay(r.decay, false);
  if (r.log_decay) m.watch_decay(r.log_decay, true);
  if (r.value_log_decay) m.watch_decay(r.value_log_decay, true);
  return read_by_door(m, q, r, eps);
}

template <class Real>
Var<Real> stabilised_read(Mixer<Real>& m, Var<Real> q, const Recurrence<Real>& r, Var<Real> log_input,
                          const char* sum) {
  m.watch_decay(r.log_decay, true);
  Var<Real> start = m.start("m"), gap;
  if (!start && (m.start(r.state) || m.start(sum)))  // states as they are
    start = expand(m.constant([](int) { return 0.0; }), {m.B, 1, m.H, 1});
  const Var<Real> top = log_scan(r.log_decay, log_input, start, &gap);
  Recurrence<Real> kept = r;
  kept.gain = sigmoid(gap);                          // e^{log_input_t - top_t}
  kept.log_decay = map(MapKind::softplus, gap, -1);  // log_decay_t + top_{t-1} - top_t
  Recurrence<Real> of_ones = kept;
  of_ones.value = ones(m, {m.B, m.T * writes_a_token(m, r), m.H, 1});
  of_ones.of_ones = true;
  of_ones.state = sum;
  Var<Real> end_factor;
  if (m.wants_end()) {  // as the paper keeps them: times e^{-m}, m the largest and not the sum
    LogScan<Real> op;
    op.largest = true;
    op.d = in(view(r.log_decay, {m.B, m.T, m.H})), op.k = in(view(log_input, {m.B, m.T, m.H}));
    if (start) op.start = in(view(start, {m.B, m.H}));
    const Var<Real> largest = view(Var<Real>{&m.graph, out(m.graph.add(op).l)}, {m.B, m.T, m.H, 1});
    end_factor = last_token(exp(top - largest));
    m.end("m", last_token(largest));
  }
  const Var<Real> divisor = larger(read_by_door(m, q, of_ones, {}, end_factor), exp(-m.at_queries(top)));
  return read_by_door(m, q, kept, {}, end_factor) * map(MapKind::inverse, divisor);
}

template <class Real>
Var<Real> attend(Mixer<Real>& m, Var<Real> x, Var<Real> k, const Attention& how, Var<Real> log_decay,
                 Var<Real> slope, bool between_tokens) {
  return attend(m, x, k, how, {.log_decay = log_decay, .slope = slope, .between_tokens = between_tokens});
}

template <class Real>
Var<Real> attend(Mixer<Real>& m, Var<Real> x, Var<Real> k, const Attention& how, const Terms<Real>& terms) {
  if (!terms.between_tokens && k) {
    m.note("score_key", k);
    m.note("score_query", x);
  }
  if (terms.log_decay) m.watch_decay(terms.log_decay, true);
  Attention here = how;
  here.strict = how.strict || (!terms.between_tokens && m.strict());
  return weights_of(m, x, k, here, terms);
}

// Reflections' share that is taken from products: - (q w^T) (I + Diag(beta) tril(w w^T, -1))^{-1} Diag(beta) tril(w k^T, -1), q w^T of
// the tokens that a query sees.
template <class Real>
static Var<Real> taken_by_reflections(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> w, Var<Real> beta) {
  const Attention linear{.kernel = Kernel::identity, .normalised = false};
  Attention strict = linear;
  strict.strict = true;
  const Var<Real> seen = attend(m, q, w, linear, {.between_tokens = m.at_tokens()});
  const Var<Real> steps = solve(seen, attend(m, w, w, strict, {.between_tokens = true}), beta);
  const Var<Real> held = attend(m, w, k, strict, {.between_tokens = true});  // [B,H,T,T]
  return -swap(weighted(steps * view(swap(beta), {m.B, m.H, 1, m.T}), swap(held)));
}

template <class Real>
Var<Real> attend_reflected(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> w, Var<Real> beta,
                           Var<Real> log_decay) {
  const Recurrence<Real> walk = {
      .key = k, .erase = Erase::free, .erase_read = w, .erase_write = w, .erase_gain = beta};
  auto tiles = in_tiles(m, q, walk);
  if (!tiles)
    return attend(m, q, k, {.scale = m.scale()},
                  {.log_decay = log_decay, .extra = m.scale() * taken_by_reflections(m, q, k, w, beta)});
  if (m.scale() != 1) tiles->q = in(m.scale() * q);
  const Var<Real> scores{&m.graph, out(m.graph.add(*tiles).a)};
  m.note("score_key", k);
  m.note("score_query", q);
  if (log_decay) m.watch_decay(log_decay, true);
  return weights_of<Real>(m, {}, {}, {.strict = m.strict()}, {.log_decay = log_decay, .extra = scores});
}

#define CROSSTALK_ENGINES(Real)                                                                         \
  template Var<Real> read_weights(Mixer<Real>&, Var<Real>, const Recurrence<Real>&, Var<Real>*);        \
  template Var<Real> read(Mixer<Real>&, Var<Real>, const Recurrence<Real>&, std::optional<double>);     \
  template Var<Real> stabilised_read(Mixer<Real>&, Var<Real>, const Recurrence<Real>&, Var<Real>,       \
                                     const char*);                                                      \
  template Var<Real> attend(Mixer<Real>&, Var<Real>, Var<Real>, const Attention&, Var<Real>, Var<Real>, \
                            bool);                                                                      \
  template Var<Real> attend(Mixer<Real>&, Var<Real>, Var<Real>, const Attention&, const Terms<Real>&);  \
  template Var<Real> attend_reflected(Mixer<Real>&, Var<Real>, Var<Real>, Var<Real>, Var<Real>, Var<Real>);
CROSSTALK_ENGINES(float)
CROSSTALK_ENGINES(double)

}  // namespace crosstalk
