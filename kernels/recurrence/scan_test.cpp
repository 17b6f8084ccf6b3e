// Scans against their sums written out: every input times the product of the factors behind it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/scan.h"

#include <complex>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::scan_test {
namespace {

using Number = std::complex<long double>;

struct Shape {
  int B = 2, T = 6, N = 3;
  bool complex = false, start = true, decays = true;
};

OpCase scan(const std::string& name, const Shape& s, const Fill& log_a) {
  OpCase op(name);
  const int parts = s.complex ? 2 : 1;
  op.optional(s.decays, "log_a", {s.B, s.T, s.N}, log_a);
  op.optional(s.complex, "angle", {s.B, s.T, s.N}, normal(2));
  op.input("x", {s.B, s.T, parts * s.N}, normal());
  op.optional(s.start, "start", {s.B, parts * s.N}, normal());
  op.output("h", {s.B, s.T, parts * s.N});
  call<Scan>(op, [s](auto& o) { o.complex = s.complex; });
  op.oracle([s, parts](const Values& in, Values& out) {
    const auto number = [&](const char* field, int i) {
      const auto at = static_cast<std::size_t>(parts * i);
      return Number(in[field][at], parts == 2 ? in[field][at + 1] : 0);
    };
    for (int i = 0; i < s.B * s.T * s.N; ++i) {
      const int n = i % s.N, t = i / s.N % s.T, b = i / s.N / s.T;
      Number h = 0;
      long double size = 0, angle = 0;  // of the product of a_{u+1} .. a_t
      for (int u = t; u >= 0; --u) {
        const int at = (b * s.T + u) * s.N + n;
        h += number("x", at) * std::polar(std::exp(size), angle);
        if (s.decays) size += in["log_a"][at];
        if (s.complex) angle += in["angle"][at];
      }
      if (s.start) h += number("start", b * s.N + n) * std::polar(std::exp(size), angle);
      out.real["h"].push_back(static_cast<double>(h.real()));
      if (s.complex) out.real["h"].push_back(static_cast<double>(h.imag()));
    }
  });
  return op.roundings(6 * s.T).condition(2).gradient_elements(100);
}

OpCase logscan(const std::string& name, const Shape& s, const Fill& d, const Fill& k, bool largest = false,
               bool gaps = false) {
  OpCase op(name);
  op.input("d", {s.B, s.T, s.N}, d).input("k", {s.B, s.T, s.N}, k);
  op.optional(s.start, "start", {s.B, s.N}, k);
  op.output("l", {s.B, s.T, s.N});
  if (gaps) op.output("gap", {s.B, s.T, s.N});
  call<LogScan>(op, [=](auto& o) { o.largest = largest, o.gaps = gaps; });
  op.oracle([=](const Values& in, Values& out) {
    for (int i = 0; i < s.B * s.T * s.N; ++i) {
      const int n = i % s.N, t = i / s.N % s.T, b = i / s.N / s.T;
      long double total = 0, others = 0, faded = 0, most = -std::numeric_limits<long double>::infinity();
      for (int u = t; u >= 0; --u) {
        const auto at = static_cast<std::size_t>((b * s.T + u) * s.N + n);
        total += std::exp(faded + in["k"][at]), most = std::max(most, faded + in["k"][at]);
        if (u < t) others += std::exp(faded + in["k"][at]);
        faded += in["d"][at];
      }
      if (s.start) {
        const double start = in["start"][b * s.N + n];
        total += std::exp(faded + start), most = std::max(most, faded + start);
        others += std::exp(faded + start);
      }
      out.real["l"].push_back(static_cast<double>(largest ? most : std::log(total)));
      if (!gaps) continue;
      const auto at = static_cast<std::size_t>(i);
      const bool first = t == 0 && !s.start;
      out.real["gap"].push_back(
          first ? kWideGap
                : static_cast<double>(std::min<long double>(in["k"][at] - std::log(others), kWideGap)));
    }
  });
  return op.roundings(4 * s.T).condition(2).gradient_elements(100);
}

/// The first field is the same variable as the last, whose gradient is added to what the first one's wrote.
template <template <class> class Op, class First, class Last>
void share(OpCase& op, First first, Last last) {
  const auto shared = [=]<class Real>(TensorSet<Real>& set) {
    Op<Real> o = bound<Op, Real>(set, [](auto&) {});
    first(o) = last(o);
    if (last(o).wanted()) last(o).write = Write::add;
    return o;
  };
  op.forward([=]<class Real>(const Exec& exec, TensorSet<Real>& set) { forward(exec, shared(set)); });
  op.backward([=]<class Real>(const Exec& exec, TensorSet<Real>& set) { backward(exec, shared(set)); });
}

OpCase shared_scan(int B, int T, int N) {
  OpCase op(fmt::format("Shared{}", T));
  op.input("x", {B, T, N}, uniform(-1, 0)).absent("log_a").absent("angle").absent("start");
  op.output("h", {B, T, N});
  share<Scan>(
      op, [](auto& o) -> auto& { return o.log_a; }, [](auto& o) -> auto& { return o.x; });
  op.oracle([=](const Values& in, Values& out) {
    for (int i = 0; i < B * T * N; ++i) {
      long double h = 0, size = 0;
      for (int u = i / N % T, at = i; u >= 0; --u, at -= N)
        h += in["x"][at] * std::exp(size), size += in["x"][at];
      out.real["h"].push_back(static_cast<double>(h));
    }
  });
  return op.roundings(6 * T).condition(2).gradient_elements(100);
}

OpCase shared_logscan(int B, int T, int N) {
  OpCase op(fmt::format("LogShared{}", T));
  op.input("k", {B, T, N}, normal()).absent("d").absent("start").output("l", {B, T, N});
  share<LogScan>(
      op, [](auto& o) -> auto& { return o.d; }, [](auto& o) -> auto& { return o.k; });
  op.oracle([=](const Values& in, Values& out) {
    for (int i = 0; i < B * T * N; ++i) {
      long double total = 0, faded = 0;
      for (int u = i / N % T, at = i; u >= 0; --u, at -= N)
        total += std::exp(faded + in["k"][at]), faded += in["k"][at];
      out.real["l"].push_back(static_cast<double>(std::log(total)));
    }
  });
  return op.roundings(4 * T).condition(2).gradient_elements(100);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const Fill decay = uniform(-1.5, 0);
  const auto gates = [](RandomStream& random, int r, std::int64_t i) {
    const double choice[] = {0, -20, -60, -std::numeric_limits<double>::infinity()};
    return i % 3 != 0 ? -random.uniform() : choice[(i / 3 + r) % 4];
  };
  for (bool complex : {false, true}) {
    const std::string word = complex ? "Complex" : "Scan";
    const Shape s{2, 6, 3, complex, true};
    all.push_back(scan(word, s, decay));
    all.push_back(scan(word + "NoStart", {2, 6, 3, complex, false}, decay));
    all.push_back(scan(word + "Ones", {1, 1, 1, complex, true}, decay));
    all.push_back(scan(word + "OnesNoStart", {1, 1, 1, complex, false}, decay));
    all.push_back(scan(word + "Long", {1, 203, 2, complex, true}, uniform(-0.1, 0)).gradient_elements(40));
    all.push_back(scan(word + "Wide", {2, 3, 133, complex, true}, decay).gradient_elements(40));
    all.push_back(scan(word + "Resets", {2, 12, 5, complex, true}, gates));
    all.push_back(scan(word + "Sums", s, constant(0)));
    all.push_back(scan(word + "NoDecays", {2, 19, 3, complex, true, false}, decay));
  }
  const Shape s;
  all.push_back(logscan("Log", s, decay, normal()));
  all.push_back(logscan("LogNoStart", {2, 6, 3, false, false}, decay, normal()));
  all.push_back(logscan("LogGaps", s, decay, normal(), false, true));
  all.push_back(logscan("LogGapsNoStart", {2, 6, 3, false, false}, decay, normal(), false, true));
  all.push_back(
      logscan("LogGapsWide", {2, 6, 3, false, false}, decay, uniform(-200, 200), false, true).condition(4));
  all.push_back(logscan("LogOnes", {1, 1, 1, false, true}, decay, normal()));
  all.push_back(logscan("LogOnesNoStart", {1, 1, 1, false, false}, decay, normal()));
  all.push_back(
      logscan("LogLong", {1, 203, 2, false, false}, uniform(-0.1, 0), normal()).gradient_elements(40));
  all.push_back(logscan("LogWide", {2, 3, 133, false, true}, decay, normal()).gradient_elements(40));
  all.push_back(logscan("LogHuge", s, normal(), uniform(-1e4, 1e4)).condition(4));
  all.push_back(logscan("LogFar", s, uniform(-60, -20), normal()));
  all.push_back(logscan("LogGrows", s, uniform(0, 1), normal()));
  all.push_back(logscan("LargestOf", s, decay, normal(), true));
  all.push_back(logscan("LargestNoStart", {2, 30, 3, false, false}, decay, normal(), true));
  all.push_back(logscan("LogResets", {2, 12, 5, false, true}, gates, normal()));
  for (const int T : {3, 19}) all.push_back(shared_scan(2, T, 3)), all.push_back(shared_logscan(2, T, 3));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Scan, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::scan_test
