// A law as the equations of a paper, in LaTeX.
//
//   beta = 2 sigmoid(token)       \beta_t = 2\,\sigma(\mathbf{w}_{\beta}^{\top} \mathbf{x}_t)
//   S += beta (v - S k) k^T       \mathbf{S}_t = \mathbf{S}_{t-1} + \beta_t (\mathbf{v}_t - \mathbf{S}_{t-1} \mathbf{k}_t) \mathbf{k}_t^{\top}
//
// x_t is the token, o_t what is read (y_t where a step is called o). Vectors and matrices are bold; w, W and b are learned.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "models/rules/law.h"

namespace crosstalk::rules {

/// Equations in the order of the law, each with " &= " in it.
std::vector<std::string> latex_equations(const Law& law);
/// The same as one aligned block.
std::string latex(const Law& law);

}  // namespace crosstalk::rules
