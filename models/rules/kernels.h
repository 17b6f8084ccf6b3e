// Kernels that walk all states of a memory's law at once (models/laws.h), where no choice of models/engines.h is the law: of which
// memories, and how each is called with what the text names.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

#include "models/mixers/mixer.h"

namespace crosstalk::rules {

/// A quantity of the text by its name: an input, a value, a weight, q [B,Q,H,K], k [B,T,H,K] or v [B,T,H,V]; of a head [1,1,H,n].
/// Absent where the options leave it out.
template <class Real>
using Named = std::function<Var<Real>(const char* name)>;

/// What is read, [B,Q,H,V], but for a factor of what asks, which the text gives.
struct LawKernel {
  template <class F>
  LawKernel(F f)
      : single([f](Mixer<float>& m, const Named<float>& x) { return f(m, x); }),
        precise([f](Mixer<double>& m, const Named<double>& x) { return f(m, x); }) {}
  Var<float> operator()(Mixer<float>& m, const Named<float>& x) const { return single(m, x); }
  Var<double> operator()(Mixer<double>& m, const Named<double>& x) const { return precise(m, x); }
  std::function<Var<float>(Mixer<float>&, const Named<float>&)> single;
  std::function<Var<double>(Mixer<double>&, const Named<double>&)> precise;
};

/// The kernel of the law of this memory, or nullptr.
const LawKernel* kernel_of_law(const std::string& memory);

}  // namespace crosstalk::rules
