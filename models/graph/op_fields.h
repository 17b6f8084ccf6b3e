// A variable of a graph, and what a graph does to the fields of its ops, whose variables they name.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/op.h"
#include "kernels/base/tensor.h"

namespace crosstalk {

/// A tensor of the graph and its gradient (the gradient of the loss with respect to it).
template <class Real>
struct Variable {
  Tensor<Real> value, gradient;
  bool needs_gradient = false;
  bool owned = true;              ///< memory comes from the graph's arena (else from a parameter block)
  bool gradient_written = false;  ///< some node writes the gradient in backward()
  bool kept = false;              ///< somebody outside the graph looks at it after the pass
  Variable* view_of = nullptr;    ///< the same memory in another shape
  int parameter = -1;             ///< index in the parameter block

  Variable* root() { return view_of ? view_of : this; }
};

namespace detail {
/// A graph moves from batch to batch: ids lie where their source says now.
struct RefreshIds {
  void operator()(const char*, Ids& f) const {
    if (f.source) f.value = *f.source;
  }
  void operator()(const char*, OutIds& f) const { f.value = *f.source; }
  template <class Field>
  void operator()(const char*, Field&) const {}
};
/// Outputs and what is kept have the formats of their variables.
template <class Real>
struct TakeFormats {
  void operator()(const char*, Out<Real>& f) const { take(f.variable, f.value, f.gradient); }
  void operator()(const char*, Saved<Real>& f) const { take(f.variable, f.value, f.value); }
  template <class Field>
  void operator()(const char*, Field&) const {}
  static void take(const void* variable, Tensor<Real>& value, Tensor<Real>& gradient) {
    if (!variable) return;
    const auto* v = static_cast<const Variable<Real>*>(variable);
    gradient.format = v->gradient.format, value.format = v->value.format;
  }
};
/// The fields that an op names as such that may be bf16.
struct Bf16Fields {
  std::vector<const void*> fields;
  std::string names;
  template <class Op>
  explicit Bf16Fields(Op& op) {
    if constexpr (requires { op.bf16_fields([](const char*, auto&) {}); }) {
      op.bf16_fields([this](const char* name, auto& field) {
        fields.push_back(&field);
        names += (names.empty() ? "" : ", ") + std::string(name);
      });
    }
  }
  bool have(const void* field) const {
    return std::find(fields.begin(), fields.end(), field) != fields.end();
  }
};
[[noreturn]] void refuse_bf16(const char* op, const char* field, const std::string& others);
/// Refuses bf16 in other fields.
template <class Real>
struct CheckFormats {
  const char* op;
  const Bf16Fields& may;
  void operator()(const char* name, In<Real>& f) const { check(name, &f, f.value, f.gradient); }
  void operator()(const char* name, Out<Real>& f) const { check(name, &f, f.value, f.gradient); }
  void operator()(const char* name, Saved<Real>& f) const { check(name, &f, f.value, f.value); }
  void operator()(const char* name, Work<Real>& f) const { check(name, &f, f.value, f.value); }
  template <class Field>
  void operator()(const char*, Field&) const {}
  void check(const char* name, const void* field, const Tensor<Real>& value,
             const Tensor<Real>& gradient) const {
    if ((value.is_bf16() || gradient.is_bf16()) && !may.have(field)) refuse_bf16(op, name, may.names);
  }
};
/// "[2,3,4]".
std::string dims_text(const int* dims, int rank);
/// The shapes that an op was given, for its complaint.
template <class Real>
struct ListShapes {
  std::string* text;
  void operator()(const char* name, In<Real>& f) const {
    if (f)
      *text += std::string(text->empty() ? "" : ", ") + name + " " + dims_text(f.value.dims, f.value.rank);
  }
  template <class Field>
  void operator()(const char*, Field&) const {}
};

/// Variables of the fields that may not be bf16.
template <class Real>
struct NativeFields {
  const Bf16Fields& may;
  std::vector<Variable<Real>*>& variables;
  template <class Field>
  void operator()(const char*, Field& f) const {
    if constexpr (requires { f.variable; }) {
      if (f.variable && !may.have(&f)) variables.push_back(static_cast<Variable<Real>*>(f.variable)->root());
    }
  }
};
/// The variable that stands in the place of another: this one itself, or a new one.
template <class Real>
using Exchange = std::function<Variable<Real>*(Variable<Real>*)>;
template <class Real>
struct ExchangeVariables {
  const Exchange<Real>& exchange;
  template <class Field>
  void operator()(const char*, Field& f) const {
    if constexpr (requires { f.variable; }) {
      Variable<Real>* const next = exchange(static_cast<Variable<Real>*>(f.variable));
      if (next == f.variable) return;
      f.variable = next;
      f.value = next->value;
      if constexpr (requires { f.gradient; }) f.gradient = next->gradient;
      if constexpr (requires { f.memory; }) f.memory = next->root();
    }
  }
};

}  // namespace detail

}  // namespace crosstalk
