// SPDX-License-Identifier: Apache-2.0
#include "models/rules/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "models/parts/parts.h"
#include "models/parts/tokens.h"
#include "models/rules/hoist.h"
#include "models/rules/sequential.h"

namespace crosstalk::rules {
namespace {

template <class Real>
class Lowering {
 public:
  Lowering(Mixer<Real>& m, const Law& law, const Plan& plan) : m_(m), law_(law), plan_(plan), hoist_(m, law) {
    bool carried = m.wants_end();
    for (const LawState& one : law.states) carried = carried || m.start(one.name);
    // Engines hand S and z of a sum in and out; other states are the law's own.
    divided_ = plan.divided &&
               (!carried ||
                (law.states.size() == 2 &&
                 std::all_of(plan.divided->asked.begin(), plan.divided->asked.end(), [](const Asked& one) {
                   return one.sum.empty() || (one.eps && one.state == "S" && one.sum == "z");
                 })));
    std::vector<Value> all, scans;
    for (const StatePlan& one : plan.states) {
      if (one.scan) scans.push_back(one.scan->factor), add(scans, one.scan->addend);
      if (one.walked) scans.push_back(law.state(one.name).step);
      if (!one.recurrence) continue;
      const RecurrencePlan& r = *one.recurrence;
      for (Value x : {r.key, r.value, r.gain, r.log_decay, r.decay, r.value_log_decay, r.sign, r.erase_read,
                      r.erase_write, r.erase_gain})
        add(all, x);
      for (const auto& write : r.more) add(all, write.key), add(all, write.value), add(all, write.gain);
    }
    for (const Asked& one : asked()) all.push_back(query_of(one)), add(all, one.log_gain);
    all.push_back(after());
    for (Value node : order(all))
      if (node->kind == Kind::input) wanted_.insert(node->name);
    all.insert(all.begin(), scans.begin(), scans.end());
    // Inputs of a memory are asked for in the order of its text; what only the reading behind the states needs, then.
    std::vector<Value> inputs, first = all;
    std::erase(first, after());
    for (auto one = law.learned.rbegin(); one != law.learned.rend(); ++one) {
      if (!one->made) continue;
      for (auto* roots : {&first, &all}) {
        const std::vector<Value> nodes = order(*roots);
        const auto leaf = std::find_if(nodes.begin(), nodes.end(), [&](Value node) {
          return is_learned_kind(node->kind) && node->value == 0 && node->name == one->name;
        });
        if (leaf == nodes.end()) continue;
        if (roots == &first) inputs.push_back(*leaf);
        roots->push_back(one->made);
      }
    }
    hoist_.count(all);
    std::for_each(inputs.rbegin(), inputs.rend(), [&](Value input) { hoist_.value(input); });
  }

  Var<Real> read() {
    for (const StatePlan& one : plan_.states) {
      if (one.scan && (!divided_ || wanted_.count(now_name(one.name)) != 0)) scan_state(one);
      if (one.walked) walk(law_.state(one.name));
    }
    for (const Asked& one : asked())
      hoist_.set(one.name, Place::query,
                 of_state(one, hoist_.at_queries(query_of(one), hoist_.size(one.query->shape.rows))));
    for (const auto& [name, value] : law_.values)
      if (name == "written_key") m_.note(name, hoist_.value(value));
    return hoist_.at_queries(after(), m_.V);
  }

 private:
  /// Queries beside the sequence see all that was written before they ask.
  bool beside() const { return law_.before && !m_.at_tokens(); }
  Value query_of(const Asked& one) const { return beside() ? one.query_beside : one.query; }
  Value after() const {
    return divided_ ? plan_.divided->after : beside() ? plan_.after_beside : plan_.after;
  }
  const std::vector<Asked>& asked() const { return divided_ ? plan_.divided->asked : plan_.asked; }

  static void add(std::vector<Value>& to, Value x) {
    if (x) to.push_back(x);
  }

  void scan_state(const StatePlan& one) {
    const int n = hoist_.size(law_.state(one.name).shape.rows);
    const ScanPlan& plan = *one.scan;
    Var<Real> log_factor;
    if (plan.factor->kind == Kind::map && plan.factor->name == "exp") {
      log_factor = hoist_.at_tokens(plan.factor->args[0], n);
    } else if (plan.factor->kind == Kind::map && plan.factor->name == "sigmoid") {
      log_factor = log_sigmoid(hoist_.at_tokens(plan.factor->args[0], n));
    } else if (plan.factor->kind == Kind::number && plan.factor->value == 1) {
      log_factor = expand(m_.constant([](int) { return 0.0; }), {m_.B, m_.T, m_.H, n});
    } else {
      log_factor = log(hoist_.at_tokens(plan.factor, n));
    }
    const Var<Real> x = plan.addend ? hoist_.at_tokens(plan.addend, n)
                                    : expand(m_.constant([](int) { return 0.0; }), {m_.B, m_.T, m_.H, n});
    const Var<Real> h = crosstalk::scan(log_factor, x, m_.start(one.name));
    if (m_.wants_end()) m_.end(one.name, last_token(h));
    hoist_.set(now_name(one.name), Place::token, h);
  }

  void walk(const LawState& state) {
    const Var<Real> h = walk_state(m_, hoist_, state);
    hoist_.set(now_name(state.name), Place::token, h);
    if (wanted_.count(before_name(state.name)) != 0)
      hoist_.set(before_name(state.name), Place::token, delayed(h, m_.start(state.name)));
  }

  Var<Real> gain_of(Value x) {
    if (x) return hoist_.at_tokens(x, 1);
    return expand(m_.constant([](int) { return 1.0; }), {m_.B, m_.T, m_.H, 1});
  }
  /// [B,T,H,n] each, one after the other at every token: [B,TN,H,n].
  Var<Real> in_turn(const std::vector<Var<Real>>& parts) {
    const int N = static_cast<int>(parts.size()), n = parts[0].dim(3);
    Var<Real> all;
    for (int i = 0; i < N; ++i) {
      Constant<Real> op;
      op.y.value = shaped<Real>(m_.graph.replicas(), {1, 1, N, 1});
      op.number[i] = 1;
      const Var<Real> here{&m_.graph, out(m_.graph.add(op).y)};
      const auto part = static_cast<std::size_t>(i);
      const Var<Real> x =
          here * expand(view(parts[part], {m_.B, m_.T, 1, m_.H * n}), {m_.B, m_.T, N, m_.H * n});
      all = i == 0 ? x : all + x;
    }
    return view(all, {m_.B, m_.T * N, m_.H, n});
  }

  Var<Real> of_state(const Asked& asked, Var<Real> q) {
    const std::string& name = asked.state;
    const StatePlan* plan = nullptr;
    for (const StatePlan& one : plan_.states)
      if (one.name == name) plan = &one;
    const RecurrencePlan& r = *plan->recurrence;
    const Shape kept = law_.state(name).shape, shape = plan->transposed ? kept.transposed() : kept;
    const auto optional = [&](Value x) { return x ? hoist_.value(x) : Var<Real>{}; };
    const auto wide = [&](Value x, int n) { return x ? hoist_.at_tokens(x, n) : Var<Real>{}; };
    const int K = hoist_.size(shape.columns), V = hoist_.size(shape.rows);
    Recurrence<Real> recurrence;
    recurrence.key = wide(r.key, K);
    if (r.value && !(r.value->kind == Kind::given && r.value->name == "v"))
      recurrence.value = wide(r.value, V);
    const bool stabilised = !asked.sum.empty() && !asked.eps;
    const std::optional<double> rate = r.gain && !law_.weights.empty() ? hoist_.number(r.gain) : std::nullopt;
    if (rate) recurrence.key = *rate * recurrence.key;
    if (!stabilised && !rate) recurrence.gain = optional(r.gain);
    recurrence.log_decay = optional(r.log_decay), recurrence.decay = optional(r.decay);
    recurrence.value_log_decay = wide(r.value_log_decay, V);
    // Looked at is what the text calls so, not what a router leaves of it.
    for (const Learned& input : law_.learned) {
      const auto is = [&](Value n) { return n->name == input.name && is_learned_kind(n->kind); };
      const Value decay = r.log_decay ? r.log_decay : r.value_log_decay;
      if (input.name != "log_decay" || !input.made || !decay || is(decay) || !holds(decay, is)) continue;
      recurrence.watched = false;
      for (Value node : order({decay}))
        if (is(node) && !std::exchange(watched_, true)) m_.watch_decay(hoist_.value(node), true);
    }
    recurrence.sign = wide(r.sign, r.sign && r.sign->shape.number() ? 1 : K);
    recurrence.erase = r.erase == RecurrencePlan::Erase::delta  ? Erase::delta
                       : r.erase == RecurrencePlan::Erase::tied ? Erase::tied
                       : r.erase == RecurrencePlan::Erase::free ? Erase::free
                                                                : Erase::none;
    recurrence.erase_read = wide(r.erase_read, K), recurrence.erase_write = wide(r.erase_write, K);
    recurrence.erase_gain = optional(r.erase_gain);
    if (!r.more.empty()) {
      std::vector<Var<Real>> keys = {recurrence.key}, values = {wide(r.value, V)}, gains = {gain_of(r.gain)};
      for (const auto& write : r.more) {
        keys.push_back(wide(write.key, K)), values.push_back(wide(write.value, V));
        gains.push_back(gain_of(write.gain));
      }
      recurrence.writes = static_cast<int>(keys.size());
      recurrence.key = in_turn(keys), recurrence.value = in_turn(values), recurrence.gain = in_turn(gains);
    }
    recurrence.decayed = r.decayed;
    recurrence.before = law_.before && m_.at_tokens();
    recurrence.contracting = (r.contracting && normalised(m_)) || (r.shrinks && !law_.weights.empty());
    recurrence.state = plan->name.c_str();
    if (stabilised) {
      recurrence.log_decay = hoist_.at_tokens(r.log_decay, 1);
      return stabilised_read(m_, q, recurrence, hoist_.at_tokens(asked.log_gain, 1), asked.sum.c_str());
    }
    return asked.sum.empty() ? crosstalk::read(m_, q, recurrence)
                             : crosstalk::read(m_, q, recurrence, asked.eps);
  }

  Mixer<Real>& m_;
  const Law& law_;
  const Plan& plan_;
  Hoist<Real> hoist_;
  bool divided_ = false;  ///< quotients are one read
  bool watched_ = false;
  std::set<std::string> wanted_;  ///< inputs that what is read or kept looks at
};

}  // namespace

template <class Real>
Var<Real> read_law(Mixer<Real>& m, const Law& law, const Plan& plan) {
  return Lowering<Real>(m, law, plan).read();
}

template Var<float> read_law(Mixer<float>&, const Law&, const Plan&);
template Var<double> read_law(Mixer<double>&, const Law&, const Plan&);

}  // namespace crosstalk::rules
