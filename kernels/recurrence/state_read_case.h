// Test data of the recurrence engine: what a StateRead may choose, its inputs, its oracle (the query-driven
// form: a scan of the query back through the tokens), and one call of it on given numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_read.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::state {

enum class Gate { none, scalar, channel };

/// A shape and everything that a StateRead may choose. Q = 0: no positions.
struct Choice {
  int B = 1, T = 7, H = 1, N = 1, Q = 0, K = 3, V = 3;
  Erase erase = Erase::none;
  Gate gate = Gate::none;
  bool write_gain = false, erase_gain = false, start = false, end = false, decayed = true, before = false;
  Precision products = Precision::full;
  bool in_bf16 = false;  ///< tokens and what is read, with their gradients, as far as kernels take them so

  int queries() const { return Q ? Q : T; }
  int M() const { return T * N; }
  int gates() const { return gate == Gate::channel ? K : 1; }
  bool reads() const { return erase == Erase::tied || erase == Erase::free; }

  template <class Real>
  void configure(StateRead<Real>& op, StateForm form) const {
    op.form = form;
    op.erase = erase;
    op.writes = N;
    op.decayed = decayed;
    op.before = before;
    op.products = products;
  }
};

inline const char* name_of(Erase e) {
  return e == Erase::none ? "None" : e == Erase::delta ? "Delta" : e == Erase::tied ? "Tied" : "Free";
}
inline const char* name_of(Gate g) { return g == Gate::none ? "" : g == Gate::scalar ? "Scalar" : "Channel"; }

/// The inputs that a choice has, with their shapes, in the order of fields().
inline std::vector<std::pair<std::string, std::vector<int>>> inputs(const Choice& c) {
  const int M = c.M();
  std::vector<std::pair<std::string, std::vector<int>>> all = {
      {"q", {c.B, c.queries(), c.H, c.K}}, {"k", {c.B, M, c.H, c.K}}, {"v", {c.B, M, c.H, c.V}}};
  if (c.write_gain) all.push_back({"write_gain", {c.B, M, c.H}});
  if (c.gate != Gate::none) all.push_back({"log_decay", {c.B, c.T, c.H, c.gates()}});
  if (c.reads()) all.push_back({"erase_read", {c.B, M, c.H, c.K}});
  if (c.erase == Erase::free) all.push_back({"erase_write", {c.B, M, c.H, c.K}});
  if (c.erase_gain) all.push_back({"erase_gain", {c.B, M, c.H}});
  if (c.start) all.push_back({"start", {c.B, c.H, c.V, c.K}});
  return all;
}

/// Keys of length about 1 (a zero key and a repeated one among them), gains in (0, 1), gates about -1.
inline Fill fill_of(const std::string& name, const Choice& c) {
  const double scale = 1 / std::sqrt(static_cast<double>(c.K));
  if (name == "write_gain" || name == "erase_gain") return uniform(0.1, 1);
  if (name == "log_decay") return uniform(-2, -0.05);
  if (name == "q" || name == "v" || name == "start") return normal();
  return normal(scale);
}

using Long = std::vector<long double>;

/// S_n r after n tokens of (b, h): r walks back through the tokens and meets every write on its way.
inline Long read_back(const Choice& c, const Values& in, int b, int h, int n, Long r) {
  const auto row = [&](const std::string& name, int m, int columns) {
    return in[name].data() + (static_cast<std::ptrdiff_t>(b * c.M() + m) * c.H + h) * columns;
  };
  const auto at = [&](const std::string& name, int m) -> long double {
    return in.real.count(name) && !in[name].empty() ? *row(name, m, 1) : 1;
  };
  const auto dot = [&](const double* x, const Long& y) {
    long double sum = 0;
    for (int i = 0; i < c.K; ++i) sum += x[i] * y[i];
    return sum;
  };
  Long o(static_cast<std::size_t>(c.V), 0);
  for (int t = n - 1; t >= 0; --t) {
    Long late(r.size(), 0);  // of an undecayed erase: joins behind the decay
    for (int i = c.N - 1; i >= 0; --i) {
      const int m = t * c.N + i;
      const long double write = at("write_gain", m) * dot(row("k", m, c.K), r);
      for (int j = 0; j < c.V; ++j) o[j] += write * row("v", m, c.V)[j];
      if (c.erase == Erase::none) continue;
      const bool delta = c.erase == Erase::delta;
      const double* x = row(delta ? "k" : "erase_read", m, c.K);
      const double* y = row(c.erase == Erase::free ? "erase_write" : "k", m, c.K);
      const long double erase = at(delta ? "write_gain" : "erase_gain", m) * dot(y, r);
      for (int j = 0; j < c.K; ++j) (i == 0 && !c.decayed ? late : r)[j] -= erase * x[j];
    }
    for (int j = 0; j < c.K; ++j) {
      const auto i = static_cast<std::size_t>(j);
      if (c.gate != Gate::none) {
        const double* g =
            in["log_decay"].data() + (static_cast<std::ptrdiff_t>(b * c.T + t) * c.H + h) * c.gates();
        r[i] *= std::exp(static_cast<long double>(g[c.gate == Gate::channel ? j : 0]));
      }
      r[i] += late[i];
    }
  }
  for (int j = 0; j < c.V && c.start; ++j)
    o[j] += dot(in["start"].data() + (static_cast<std::ptrdiff_t>(b * c.H + h) * c.V + j) * c.K, r);
  return o;
}

inline Values oracle(const Choice& c, const Values& in) {
  Values out;
  const int Q = c.queries();
  for (int b = 0; b < c.B; ++b) {
    for (int j = 0; j < Q; ++j) {
      for (int h = 0; h < c.H; ++h) {
        const double* q = in["q"].data() + (static_cast<std::ptrdiff_t>(b * Q + j) * c.H + h) * c.K;
        const int n = c.Q ? in.integer.at("position")[b * Q + j] : j + !c.before;
        for (long double x : read_back(c, in, b, h, n, Long(q, q + c.K)))
          out.real["o"].push_back(static_cast<double>(x));
      }
    }
  }
  if (!c.end) return out;
  Numbers& end = out.real["end"];
  end.resize(static_cast<std::size_t>(c.B * c.H * c.V * c.K));
  for (int bh = 0; bh < c.B * c.H; ++bh) {
    for (int i = 0; i < c.K; ++i) {
      Long unit(static_cast<std::size_t>(c.K), 0);
      unit[i] = 1;
      const Long column = read_back(c, in, bh / c.H, bh % c.H, c.T, unit);
      for (int j = 0; j < c.V; ++j) end[(bh * c.V + j) * c.K + i] = static_cast<double>(column[j]);
    }
  }
  return out;
}

/// Tells whether kernels may take a field in bf16.
inline bool may_be_bf16(const Choice& c, const std::string& name) {
  return name == "q" || name == "k" || name == "erase_read" || name == "erase_write" || name == "o" ||
         (name == "v" && c.erase != Erase::free);
}

/// One replica of a StateRead on given numbers: outputs and, of a given d_o or d_end, gradients d_<input>.
template <class Real>
std::map<std::string, Numbers> run(const Choice& c, StateForm form, const Values& in,
                                   Device device = Device::cpu) {
  TensorSet<Real> set(device);
  const auto format_of = [&](const std::string& name) {
    return c.in_bf16 && may_be_bf16(c, name) ? Format::bf16 : Format::native;
  };
  for (const auto& [name, dims] : inputs(c)) {
    set.reals.add(name, 1, dims, format_of(name));
    set.reals.add("d_" + name, 1, dims, format_of(name));
    set.writes[name] = Write::overwrite;
  }
  if (c.Q) set.integers.add("position", 1, {c.B, c.Q});
  std::vector<std::pair<std::string, std::vector<int>>> outputs = {{"o", {c.B, c.queries(), c.H, c.V}}};
  if (c.end) outputs.push_back({"end", {c.B, c.H, c.V, c.K}});
  for (const auto& [name, dims] : outputs) {
    set.reals.add(name, 1, dims, format_of(name));
    if (in.real.count("d_" + name)) set.reals.add("d_" + name, 1, dims, format_of(name));
  }
  set.allocate();
  for (const auto& [name, numbers] : in.real)
    if (set.reals.has(name)) upload(device, set.real(name), 0, numbers);
  if (c.Q) upload(device, set.integer("position"), 0, in.integer.at("position"));
  const auto op = checks::planned<StateRead, Real>(set, [&](auto& o) { c.configure(o, form); });
  Exec exec;
  exec.device = device;
  forward(exec, op);
  const bool back = in.real.count("d_o") || in.real.count("d_end");
  if (back) backward(exec, op);
  set.check_overruns();
  std::map<std::string, Numbers> out;
  const auto keep = [&](const std::string& name) {
    const auto values = download(device, set.real(name), 0);
    out[name] = Numbers(values.begin(), values.end());
  };
  keep("o");
  if (c.end) keep("end");
  for (const auto& input : inputs(c))
    if (back) keep("d_" + input.first);
  return out;
}

}  // namespace crosstalk::checks::state
