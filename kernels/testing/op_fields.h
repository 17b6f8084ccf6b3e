// Binds the fields of an op (kernels/base/op.h) to the tensors of a test case by their names.
//
//   OpCase op("Wide");
//   op.input("x", {5, 7}, normal()).output("y", {5, 7});
//   call<Scale>(op, [](auto& o) { o.factor = 2; });
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <type_traits>

#include "kernels/base/op.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks {

template <class Real>
struct BindFields {
  TensorSet<Real>& set;
  void operator()(const char* name, In<Real>& f) const {
    if (!set.reals.has(name)) return;
    f.value = set.real(name);
    if (!set.reals.has(std::string("d_") + name)) return;
    f.gradient = set.real(std::string("d_") + name);
    f.write = set.writes.count(name) ? set.write(name) : Write::none;
  }
  void operator()(const char* name, Out<Real>& f) const {
    if (!set.reals.has(name)) return;
    f.value = set.real(name);
    if (set.reals.has(std::string("d_") + name)) f.gradient = set.real(std::string("d_") + name);
  }
  void operator()(const char* name, Saved<Real>& f) const {
    if (set.reals.has(name)) f.value = set.real(name);
  }
  void operator()(const char* name, Work<Real>& f) const {
    if (set.reals.has(name)) f.value = set.real(name);
  }
  void operator()(const char* name, Ids& f) const {
    if (set.integers.has(name)) f.value = set.integer(name);
  }
  void operator()(const char* name, OutIds& f) const {
    if (set.integers.has(name)) f.value = set.integer(name);
  }
};

template <template <class> class Op, class Real, class Configure>
Op<Real> bound(TensorSet<Real>& set, const Configure& configure) {
  Op<Real> op;
  configure(op);
  op.fields(BindFields<Real>{set});
  return op;
}

/// Gives memory to what an op keeps and works with, as far as the case brings none.
template <class Real>
struct BindExtras {
  TensorSet<Real>& set;
  template <class Field>
  void operator()(const char* name, Field& f) const {
    if constexpr (std::is_same_v<Field, Saved<Real>> || std::is_same_v<Field, Work<Real>>) {
      if (!set.reals.has(name) && f.value.R > 0) f.value = set.extra(name, f.value);
    }
  }
};

/// Binds and plans an op: the op chooses its form, and kept numbers and workspace have its shapes.
template <template <class> class Op, class Real, class Configure>
Op<Real> planned(TensorSet<Real>& set, const Configure& configure) {
  Op<Real> op = bound<Op, Real>(set, configure);
  if constexpr (requires { op.device; }) op.device = set.device();
  op.plan();
  op.fields(BindFields<Real>{set});
  op.fields(BindExtras<Real>{set});
  return op;
}

/// Forward of the case is that of Op, which has nothing to differentiate, its constants as `configure` sets
/// them (a generic lambda).
template <template <class> class Op, class Configure>
void call_forward(OpCase& op_case, const Configure& configure) {
  op_case.forward([configure]<class Real>(const Exec& exec, TensorSet<Real>& set) {
    forward(exec, bound<Op, Real>(set, configure));
  });
}

/// Forward and backward of the case are those of Op.
template <template <class> class Op, class Configure>
void call(OpCase& op_case, const Configure& configure) {
  call_forward<Op>(op_case, configure);
  op_case.backward([configure]<class Real>(const Exec& exec, TensorSet<Real>& set) {
    backward(exec, bound<Op, Real>(set, configure));
  });
}

/// The same of an op that is planned: the case lists no workspace.
template <template <class> class Op, class Configure>
void call_planned(OpCase& op_case, const Configure& configure) {
  op_case.forward([configure]<class Real>(const Exec& exec, TensorSet<Real>& set) {
    forward(exec, planned<Op, Real>(set, configure));
  });
  op_case.backward([configure]<class Real>(const Exec& exec, TensorSet<Real>& set) {
    backward(exec, planned<Op, Real>(set, configure));
  });
}

}  // namespace crosstalk::checks
