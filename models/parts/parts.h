// The parts that memories are made of: feature map, key normalisation, read normalisation, gates, kernels.
// Each carries its options and checks; a memory lists the parts it wants with its own defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "kernels/base/text/choice.h"
#include "models/engines.h"

namespace crosstalk {

/// feature_map with this default, the options of all maps (kernels/feature_map/maps/) and d_dot.
Part feature_map(const std::string& default_map);
/// key_norm none | sum | l2: what phi(k) and phi(q) are divided by.
Part key_norm(const std::string& default_norm);
/// read_norm: what is done with values read.
Part read_norm(const std::string& default_norm, std::vector<std::string> choices);
/// beta_max in (0, 2]: beta = beta_max sigmoid(...).
Part beta_max(double default_max = 1);
/// Options that name kernels of an attention (names and defaults), and order, digits and tau for all of them.
Part kernels(const std::vector<std::pair<std::string, std::string>>& names);

/// Keys [B,M,H,K] and queries [B,Q,H,K] after feature map and key_norm, where the memory has these parts.
template <class Real>
struct Features {
  Var<Real> q, k;
};
template <class Real>
Features<Real> features(Mixer<Real>& m);
/// The same for keys of their own, which no query shares.
template <class Real>
Var<Real> featured(Mixer<Real>& m, Var<Real> x);
/// Tells whether features() divides: then |k| <= 1.
template <class Real>
bool normalised(const Mixer<Real>& m);

/// Applies read_norm "layernorm" to values read [B,Q,H,V].
template <class Real>
Var<Real> normalised_read(Mixer<Real>& m, Var<Real> o);

/// The kernel that an option names. `row_norm` names the option that says none or sum.
template <class Real>
Attention kernel_of(const Mixer<Real>& m, const char* option, const char* row_norm, double scale);
/// row_norm none | sum: whether weights are divided by their sum over the tokens seen.
Part row_norm(const std::string& name, const std::string& default_norm);

/// beta [B,T,H,1] = beta_max sigmoid(w.token + b); `parameter` names the projection.
template <class Real>
Var<Real> beta_gate(Mixer<Real>& m, const std::string& parameter = "beta");
/// rate_from: what e^A of mamba_decay() starts at least with.
Part rate_from();
/// log alpha = -e^A softplus(w.token + b), [B,T,H,width]: A drawn as log U(1, 16), or from rate_from() on, b so that the step lies in
/// 1e-3 .. 0.1 (Mamba-2, Dao and Gu 2024, arXiv 2405.21060). A channel each where width > 1.
template <class Real>
Var<Real> mamba_decay(Mixer<Real>& m, int width = 1);
/// The law alone; its parameters are called A_log and decay, and that.
template <class Real>
Var<Real> mamba_law(Mixer<Real>& m, int width = 1, const std::string& called = "");

/// eps of the denominators of reads (Schlag, Irie, Schmidhuber 2021: 1e-6) and of LayerNorm (PyTorch: 1e-5).
inline constexpr double kReadEps = 1e-6, kLayerNormEps = 1e-5;

/// Dimension of phi(k) of one head; `resolve` of feature_map() has filled it in.
std::int64_t head_d_dot(const Options& options);
/// model.heads, or 1.
std::int64_t heads_of(const Options& options);
/// Keys of one head: model.d_key / model.heads.
std::int64_t head_d_key(const Options& options);
/// Tells whether the model has layers behind its first, in which a memory may start otherwise.
bool has_later_layers(const Options& options);

}  // namespace crosstalk
