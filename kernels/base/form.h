// Faster forms of an op on CUDA.
//
// NAME_form.cu in kernels/fused/ defines forms::NAME(), which calls add_form() for each op and precision that
// it serves. The build lists these files (kernels/CMakeLists.txt). An op asks choose_form() when it is
// planned and keeps the answer: no op names a form, and where no form covers its shape the op's own version
// runs, which covers every shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <vector>

#include "kernels/base/op.h"

namespace crosstalk {

template <class Op>
struct FusedForm {
  const char* name;
  /// Tells whether the form computes this op on the current device: shapes, absent inputs, shared memory.
  bool (*covers)(const Op&);
  /// Sets the shapes of what the op keeps for backward and works with.
  void (*plan)(Op&);
  void (*forward)(const Exec&, const Op&);
  void (*backward)(const Exec&, const Op&);
};

/// Calls every forms::NAME() of the build, once.
void add_all_forms();

/// Forms of one op, in the order of their files' names.
template <class Op>
std::vector<FusedForm<Op>>& forms_of() {
  static std::vector<FusedForm<Op>> all;
  return all;
}
template <class Op>
void add_form(const FusedForm<Op>& form) {
  forms_of<Op>().push_back(form);
}

/// Forms of an op that the build has: any of their files may be deleted. $CROSSTALK_WITHOUT_FORMS, set to anything: none, as if
/// all were; GPU tests pass with it too.
template <class Op>
const std::vector<FusedForm<Op>>& known_forms() {
  static const bool all = std::getenv("CROSSTALK_WITHOUT_FORMS") == nullptr;
  if (all) add_all_forms();
  return forms_of<Op>();
}

/// The first form that covers the op, or null.
template <class Op>
const FusedForm<Op>* choose_form(const Op& op) {
  for (const FusedForm<Op>& form : known_forms<Op>())
    if (form.covers(op)) return &form;
  return nullptr;
}

}  // namespace crosstalk
