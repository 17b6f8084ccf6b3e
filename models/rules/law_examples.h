// Laws from papers, as texts. Tests go through them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk::rules {

struct Example {
  std::string name, law;
};

inline const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {"delta", "beta = sigmoid(token); S += beta (v - S k) k^T; read S q"},
      {"gated_delta",
       "beta = sigmoid(token); A = parameter(log_uniform(1, 16)); decay = token(bias = inverse_softplus(0.001, 0.1)); alpha = exp(-exp(A) "
       "softplus(decay)); S = alpha S (I - beta k k^T) + beta v k^T; read S q"},
      {"kda",
       "beta = sigmoid(token); A = parameter(log_uniform(1, 16)); decay = token(K, rank = d, bias = inverse_softplus(0.001, 0.1)); S = S "
       "diag(exp(-exp(A) softplus(decay))); S += beta (v - S k) k^T; read S q"},
      {"rwkv7",
       "decay = token(K, rank = d); erase_scale = parameter(K, 0.85); rate = sigmoid(token(K, rank = d)); key_mix = parameter(K, constant(1)); kappa "
       "= unit(k * erase_scale); S = S (diag(exp(-0.6065306597126334 sigmoid(decay))) - kappa (rate * kappa)^T) + v (k * (1 + (rate - 1) * "
       "key_mix))^T; read S q"},
      {"linear_attention", "state z[K]; S += v k^T; z += k; read S q / (z^T q + 0.000001)"},
      {"fwm",
       "beta = sigmoid(token); state n[1]; n += 1; S += beta (v - S k) k^T; S = S / (relu(norm(S) - 1) min(n - 1, 1) + 1); read layernorm(S q)"},
      {"titans_linear",
       "rate = sigmoid(token); momentum = sigmoid(token); forget = sigmoid(token(bias = constant(-4))); state S[V, K] = parameter(V, K, "
       "normal(0.02)); state P[V, K]; P = momentum P - rate (S k - v) k^T; S = (1 - forget) S + P; read S q"},
      // A reading that looks at one state of two, and has values of the other's size.
      {"velocity",
       "rate = sigmoid(token); state m[V]; m = 0.5 m + rate (v - S k); S += m k^T; read tanh(S q)"},
      {"oja", "rate = sigmoid(token); y = S k + v; S += rate (y k^T - diag(y * y) S); read S q"},
      {"m2rnn",
       "f = sigmoid(token); W = parameter(K, K, normal(0.5)); S = f S + (1 - f) tanh(S W + v k^T); read S q"},
      {"gsa",
       "alpha = sigmoid(token(6)); state A[6, K]; state B[V, 6]; A = diag(alpha) A + (1 - alpha) k^T; B = B diag(alpha) + v (1 - alpha)^T; read B "
       "softmax(A q)"},
      {"mamba2",
       "step = softplus(token(bias = inverse_softplus(0.001, 0.1))); A = parameter(log_uniform(1, 16)); S = exp(-(exp(A) step)) S + step v k^T; read "
       "S q"},
      {"nonsense",
       "g = token(V); state z[3]; z = softmax(z + ones(3) tanh(sum(S))); S = silu(S) * inverse(0.3 * abs(S) + 1) - max(S, -0.2) / 2; S += sigmoid(g) "
       "norm(S + 0.1) unit(k)^T; S = 0.5 S S^T S + diag(exp(-z^T z * abs(g))) S + v k^T; read log_sigmoid(S q) * sqrt(1 + (0.1 sum(S))^2) - rms(S "
       "unit(q)) + mean(z)"},
      {"retnet", "S = exp(parameter(-0.1)) S + v k^T; read S q"},
      {"gla", "alpha = sigmoid(token(K, rank = 4)); S = S diag(alpha) + v k^T; read S q"},
      {"dfw",
       "alpha = sigmoid(token(K)); alpha_v = sigmoid(token(V)); S = diag(alpha_v) S diag(alpha) + v k^T; read S q"},
      {"comba",
       "beta = sigmoid(token); decay = token; inner = parameter(constant(1)); D = parameter(constant(1)); p = sigmoid(inner) k; S = "
       "exp(-softplus(decay)) S + beta (v - S p) k^T; read S (q - D p)"},
      {"gated_delta2",
       "b = sigmoid(token(K)); w = sigmoid(token(V)); S = S diag(exp(-softplus(token(K)))); S += (w * v - S (b * k)) k^T; read S q"},
      {"complex_kda",
       "alpha = tanh(token(K)); beta = sigmoid(token); S = S diag(alpha); S += beta (v - S k) k^T; read S q"},
      {"fading_delta", "beta = sigmoid(token); S = (1 - 0.5 beta) S + beta (v - S k) k^T; read S q"},
      {"delta_product",
       "beta = sigmoid(token); beta_2 = sigmoid(token); k_2 = unit(token(K)); v_2 = token(V); decay = token; S = exp(-softplus(decay)) S; S += beta "
       "(v - S k) k^T; S += beta_2 (v_2 - S k_2) k_2^T; read S q"},
      {"three_writes",
       "k_2 = unit(token(K)); k_3 = unit(token(K)); v_2 = token(V); alpha = sigmoid(token(K)); S = S diag(alpha); S = S (I - k k^T) + v k^T; S += "
       "sigmoid(parameter) (v_2 - S k_2) k_2^T; S += 2 sigmoid(token) (v - S k_3) k_3^T; read S q"},
      {"rwkv6",
       "bonus = parameter(K, uniform(0.5)); decay = token(K); read S q + v ((bonus * k)^T q); S = S diag(exp(-exp(decay))) + v k^T"},
      {"precond_gated_delta",
       "beta = sigmoid(token); beta_a = sigmoid(token); decay = token; decay_a = token; center = parameter(-0.2); state A[K]; A = "
       "exp(-softplus(decay_a)) A + beta_a k * k; r = log(A + 0.000001) - center; M = exp(-0.4054651081081644 * r / (1 + abs(r))); S = "
       "exp(-softplus(decay)) S; S += beta (v - S k) (M * k)^T; read S q"},
      {"ttt_linear",
       "rate = 0.25 sigmoid(token); gain = parameter(V, constant(1)); bias = parameter(V, constant(0)); state b[V]; e = gain * layernorm(S k + b) + "
       "bias - v; loss = 0.5 * sum(e * e); G = grad(loss, S); b -= rate grad(loss, b); S -= rate G; read gain * layernorm(S q + b) + bias"},
      {"mlstm",
       "i = exp(token); f = sigmoid(token(bias = constant(3))); state n[K]; S = f S + i v k^T; n = f n + i k; read S q / max(abs(n^T q), 1)"},
      {"second_order",
       "rate = sigmoid(token); state H[K, K] = fill(0.1, K, K); H += unit(k) unit(k)^T; S += rate (v - S k) (H k)^T; read tanh(S q)"},
      {"signed_sum", "g = token(K); state z[K]; z = tanh(g) * z + k; S = S + v k^T; read S (q * z)"},
      {"kda_transposed",
       "beta = sigmoid(token); alpha = sigmoid(token(K)); state H[K, V]; H = (I - beta k k^T) diag(alpha) H + beta k v^T; read H^T q"},
      {"ridge",
       "g = sigmoid(token); state H[K, K]; H = g H + k k^T; S = g S + v k^T; read S solve(H + diag(0.3 (1 + norm(H)) ones(K)), q)"},
      // A vector that is walked alone, whose last value the gain looks at.
      {"kalman",
       "g = exp(-softplus(token(K))); r = 0.1 + softplus(token); state d[K]; z = g * g / (d + 1) + 0.5; h = z * k / (r + sum(z * k * k)); d = 1 / z "
       "+ 2 (k * k) / r - 1; S = S diag(g); S += (v - S k) h^T; read S (q + 0.1 d)"},
      // A step that solves.
      {"newton",
       "g = sigmoid(token); state H[K, K]; H = g H + k k^T; S += (v - S k) solve(H + I, k)^T; read S q"},
      // What engines can do and no law above wants: reads before the token, erases of what has not decayed, quotients of what
      // decays, signs of a number.
      {"before_sum", "read S q; S += v k^T"},
      {"before_fading_sum", "a = sigmoid(token); g = token; read S q; S = a S + g v k^T"},
      {"before_rows", "a = sigmoid(token(V)); read S q; S = diag(a) S + v k^T"},
      {"before_rows_and_columns",
       "a = sigmoid(token(K)); b = sigmoid(token(V)); g = token; read S q; S = diag(b) S diag(a) + g v k^T"},
      {"before_delta", "beta = sigmoid(token); read S q; S += beta (v - S k) k^T"},
      {"before_gated_delta",
       "a = sigmoid(token); beta = sigmoid(token); read S q; S = a S (I - beta k k^T) + beta v k^T"},
      {"before_fading_delta",
       "a = sigmoid(token); beta = sigmoid(token); read S q; S = a S + beta (v - S k) k^T"},
      {"before_tied",
       "a = sigmoid(token); b = sigmoid(token(K)); read S q; S = a S; S += sigmoid(token) (v - S (b * k)) k^T"},
      {"before_free",
       "a = sigmoid(token(K)); x = unit(token(K)); y = unit(token(K)); read S q; S = S diag(a); S += v k^T - 0.5 (S x) y^T"},
      {"before_writes",
       "a = sigmoid(token(K)); k_2 = unit(token(K)); v_2 = token(V); read S q; "
       "S = S diag(a); S += sigmoid(token) (v - S k) k^T; S += 0.5 (v_2 - S k_2) k_2^T"},
      {"free_undecayed",
       "a = sigmoid(token(K)); x = unit(token(K)); y = unit(token(K)); S = S diag(a) + v k^T - 0.5 (S x) y^T; read S q"},
      {"fading_quotient",
       "f = sigmoid(token); i = exp(token); state n[K]; S = f S + i v k^T; n = f n + i k; read S q / (n^T q + 9)"},
      {"quotient_of_columns",
       "a = sigmoid(token(K)); state n[K]; S = S diag(a) + v k^T; n = a * n + k; read S q / (n^T q + 9)"},
      {"signed_number", "a = tanh(token); S = a S + v k^T; read S q"},
      {"rotation",
       "turn = token(K, weights = 0.5, bias = uniform(-1, 2)); kept = share(largest(sigmoid(token(K)), 2), 0.1); state J[V, K]; R = (S "
       "diag(cos(turn)) - J diag(sin(turn))) diag(kept) + v k^T; J = S diag(sin(turn)) + J diag(cos(turn)); S = R; read S q"},
  };
  return all;
}

}  // namespace crosstalk::rules
