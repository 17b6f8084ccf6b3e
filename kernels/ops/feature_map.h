// Feature maps phi: R^d -> R^p of keys and queries, row by row.
//
//   identity  x                                                                     p = d
//   elu1      elu(x) + 1 (Katharopoulos et al. 2020)                                p = d
//   relu      max(0, x)                                                             p = d
//   tanh      tanh(x) (Schlag, Munkhdalai, Schmidhuber 2021)                        p = d
//   dpfp      y = [relu(x); relu(-x)], y * roll(y, j) for j = 1..nu (Schlag, Irie,
//             Schmidhuber 2021, section 5.3 and listing 1)                          p = 2 d nu
//   favor_hyperbolic  exp(-|x|^2/2) [exp(O x); exp(-O x)] / sqrt(2 m)               p = 2 m
//   favor_positive    exp(-|x|^2/2) exp(O x) / sqrt(m) (Choromanski et al. 2021)    p = m
// with O [m,d] random (ops/favor_features.h). FAVOR+ estimates exp(q.k), as the 2021 code does: no d^(-1/4)
// scaling. SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/exec.h"

namespace crosstalk {

enum class FeatureMap : int { identity, elu1, relu, tanh, dpfp, favor_hyperbolic, favor_positive };

/// x [R,N,d] -> y [R,N,p]; omega [R,m,d] for FAVOR+ only.
template <class Real>
struct FeatureMapForward {
  FeatureMap map = FeatureMap::identity;
  int nu = 1;
  Tensor<Real> x, omega, y;
};

/// d_y [R,N,p] -> d_x [R,N,d]. Needs x, and y for elu1, tanh and FAVOR+. omega gets no gradient.
template <class Real>
struct FeatureMapBackward {
  FeatureMap map = FeatureMap::identity;
  int nu = 1;
  Tensor<Real> x, omega, y, d_y, d_x;
  Write write_x = Write::none;
};

template <class Real>
void run_cpu(const Exec& exec, const FeatureMapForward<Real>& args);
template <class Real>
void run_cpu(const Exec& exec, const FeatureMapBackward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const FeatureMapForward<Real>& args);
template <class Real>
void run_cuda(const Exec& exec, const FeatureMapBackward<Real>& args);

}  // namespace crosstalk
