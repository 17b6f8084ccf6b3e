// Starts of backward: variables whose gradient the caller gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/elementwise/elementwise.h"
#include "models/graph/graph.h"

namespace crosstalk {

/// A variable for the caller to fill, of the shape of `of`: backward starts with its numbers as the gradient of `of`. After all
/// nodes that read `of`.
template <class Real>
Variable<Real>* given_gradient(Graph<Real>& graph, Variable<Real>* of) {
  Tensor<Real> shape = of->value;
  shape.data = nullptr;
  Variable<Real>* given = graph.tensor(shape, false);
  graph.node(
      "cotangent", {of}, {}, [](const Exec&) {},
      [of, given](const Exec& exec, const std::vector<Write>& writes) {
        if (writes[0] == Write::add) {  // two of them share memory
          const auto row = [](Tensor<Real> x) {
            x.dims[3] = static_cast<int>(x.size()), x.dims[0] = x.dims[1] = x.dims[2] = 1, x.rank = 4;
            return x;
          };
          Combine<Real> sum;
          sum.a.value = row(of->gradient), sum.b.value = row(given->value), sum.y.value = row(of->gradient);
          crosstalk::forward(exec, sum);
        } else if (writes[0] == Write::overwrite) {
          Map<Real> copy;
          copy.x.value = given->value, copy.y.value = of->gradient;
          crosstalk::forward(exec, copy);
        }
      });
  return given;
}

}  // namespace crosstalk
