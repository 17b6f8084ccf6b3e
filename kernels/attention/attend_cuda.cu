// Attention as a matrix: scores as products, a warp a row for bias, kernel and sum; gradients by products
// again. Products of one query have a warp a key; those of several are tiled.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/score_kernel.h"
#include "kernels/base/device/reduce.cuh"
#include "kernels/base/head_rows.h"
#include "kernels/matmul/column_sum.cuh"
#include "kernels/matmul/gemm.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kWarps = kThreads / 32;

/// Query i of sequence b and head h, for one warp.
template <class Real>
struct Row {
  int r, b, h, i, T, K, lane;
  std::int64_t row;
  bool exists;
  SeenTokens seen;
  HeadRows<Real> k, g;
  const Real* x;
  const Real* extra;  ///< what is added to the scaled products, or null
  Real slope;

  __device__ explicit Row(const Attend<Real>& op) {
    const int B = op.B(), H = op.H(), Q = op.Q();
    row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
    exists = row < std::int64_t{B} * H * Q;
    if (!exists) return;
    T = op.T(), K = op.K(), lane = threadIdx.x % 32;
    r = blockIdx.y, i = static_cast<int>(row % Q), h = static_cast<int>(row / Q % H),
    b = static_cast<int>(row / Q / H);
    seen = seen_tokens(op, r, b, i);
    k = HeadRows<Real>(op.k.value, r, b, h, T, H, K),
    g = HeadRows<Real>(op.log_decay.value, r, b, h, T, H, 1);
    x = HeadRows<Real>(op.x.value, r, b, h, Q, H, K)(i);
    extra = op.extra ? op.extra.value.at(r) + row * T : nullptr;
    slope = op.slope ? op.slope.value.at(r)[h] : Real(0);
  }

  /// Calls f(j, bias) for the tokens seen, the last first, a token a lane.
  __device__ void for_tokens(auto&& f) const {
    Real carry = 0;  // of the tokens behind: the sum of their g
    for (int base = seen.own; base >= seen.first; base -= 32) {
      const int j = base - lane;
      Real decay = 0;
      if (g) {
        const Real sum = warp_scan(j >= seen.first ? *g(j) : Real(0));
        const Real before = __shfl_up_sync(kFullWarp, sum, 1);
        decay = carry + (lane > 0 ? before : Real(0));
        carry += __shfl_sync(kFullWarp, sum, 31);
      }
      if (j >= seen.first && j < seen.last) f(j, decay - slope * static_cast<Real>(seen.own - j));
    }
  }
  /// Zeroes what is not seen of a row.
  __device__ void clear(Real* a) const {
    for (int j = lane; j < T; j += 32)
      if (j < seen.first || j >= seen.last) a[j] = 0;
  }
};

/// Products of the row -> weights, in place.
template <class Real>
__global__ void __launch_bounds__(kThreads) weigh(const __grid_constant__ Attend<Real> op) {
  const Row<Real> row(op);
  if (!row.exists) return;
  const ScoreKernel<Real> kernel(op);
  Real* a = op.a.value.at(row.r) + row.row * row.T;
  row.clear(a);
  if (row.extra && op.k) {
    for (int j = row.seen.first + row.lane; j < row.seen.last; j += 32) a[j] += row.extra[j];
    __syncwarp();
  }
  const Real* const scores = op.k ? a : row.extra;
  const Real sink = op.sink ? op.sink.value.at(row.r)[row.h] : -INFINITY;
  Real largest = -INFINITY;
  if (op.normalised) {
    row.for_tokens([&](int j, Real bias) {
      const Score<Real> score = kernel(scores[j]);
      if (score.factor != 0 && score.exponent + bias > largest) largest = score.exponent + bias;
    });
    largest = warp_max(largest);
    if (sink > largest) largest = sink;
  }
  if (!isfinite(largest)) largest = 0;
  Real total = 0, inverse = 1;
  row.for_tokens([&](int j, Real bias) {
    const Score<Real> score = kernel(scores[j]);
    a[j] = score.factor == 0 ? Real(0) : score.factor * exp(score.exponent + bias - largest);
    total += a[j];
  });
  if (op.normalised) {
    total = warp_sum(total);
    if (op.eps > 0) total += static_cast<Real>(op.eps) * exp(-largest);
    if (op.sink) total += exp(sink - largest);
    inverse = total == 0 ? Real(0) : 1 / total;
    __syncwarp();
    for (int j = row.seen.first + row.lane; j < row.seen.last; j += 32) a[j] *= inverse;
  }
  if (op.row && row.lane == 0) {
    Real* kept = op.row.value.at(row.r) + 2 * row.row;
    kept[0] = largest, kept[1] = inverse;
  }
}

/// The gradient that a launch of row_gradients makes: into d_s, or (extra) where it belongs.
enum class Wanted { score, extra, decay, slope, sink };

template <class Real, Wanted kWanted>
__global__ void __launch_bounds__(kThreads) row_gradients(const __grid_constant__ Attend<Real> op) {
  const Row<Real> row(op);
  if (!row.exists) return;
  const SeenTokens seen = row.seen;
  const Real* a = op.a.value.at(row.r) + row.row * row.T;
  const Real* d_a = op.a.gradient.at(row.r) + row.row * row.T;
  const Real* kept = op.row.value.at(row.r) + 2 * row.row;
  Real* out = op.d_s ? op.d_s.value.at(row.r) + row.row * row.T : nullptr;
  const Real shift = op.normalised ? warp_dot(a, d_a, row.T) : Real(0);
  const auto d_bias = [&](int j) { return a[j] * (d_a[j] - shift); };
  if constexpr (kWanted == Wanted::score || kWanted == Wanted::extra) {
    // Gradients of the products, which d_s holds where they are needed.
    constexpr bool kExtra = kWanted == Wanted::extra;
    Real* d_extra = kExtra ? op.extra.gradient.at(row.r) + row.row * row.T : nullptr;
    const Real scale = kExtra ? Real(1) : static_cast<Real>(op.scale);
    const auto give = [&](int j, Real gradient) {
      if constexpr (kExtra)
        put(op.extra.write, d_extra + j, gradient);
      else
        out[j] = gradient;
    };
    if constexpr (!kExtra)
      row.clear(out);
    else if (op.extra.write == Write::overwrite)
      row.clear(d_extra);
    if (op.kernel == Kernel::exp) {
      for (int j = seen.first + row.lane; j < seen.last; j += 32) give(j, scale * d_bias(j));
    } else {
      const ScoreKernel<Real> kernel(op);
      row.for_tokens([&](int j, Real bias) {
        const Real product = op.k && op.curved() ? out[j] : Real(0);
        const Score<Real> score = kernel(row.extra ? product + row.extra[j] : product);
        const Real fade = score.slope == 0 ? Real(0) : score.slope * exp(bias - kept[0]);
        give(j, scale * (d_a[j] - shift) * kept[1] * fade);
      });
    }
  } else if constexpr (kWanted == Wanted::decay) {  // out_n = sum of d_bias_j, j < n, for n <= own
    Real carry = 0;
    for (int base = 0; base < row.T; base += 32) {
      const int j = base + row.lane;
      const Real sum = warp_scan(j >= seen.first && j < seen.last ? d_bias(j) : Real(0));
      const Real before = __shfl_up_sync(kFullWarp, sum, 1);
      if (j < row.T) out[j] = j <= seen.own ? carry + (row.lane > 0 ? before : Real(0)) : Real(0);
      carry += __shfl_sync(kFullWarp, sum, 31);
    }
  } else if constexpr (kWanted == Wanted::sink) {  // out_0 = what the sink takes of the gradients
    if (row.lane == 0) out[0] = shift * kept[1] * exp(op.sink.value.at(row.r)[row.h] - kept[0]);
  } else {  // out_0 = sum of d_bias_j (own - j)
    Real sum = 0;
    for (int j = seen.first + row.lane; j < seen.last; j += 32)
      sum += d_bias(j) * static_cast<Real>(seen.own - j);
    sum = warp_sum(sum);
    if (row.lane == 0) out[0] = sum;
  }
}

/// d_g_n: sum over queries of what row_gradients left. A thread a token.
template <class Real>
__global__ void __launch_bounds__(kThreads) sum_queries(const __grid_constant__ Attend<Real> op) {
  const int H = op.H(), Q = op.Q(), T = op.T(), r = blockIdx.y;
  const int tiles = (T + kThreads - 1) / kThreads, bh = static_cast<int>(blockIdx.x) / tiles;
  const int n = static_cast<int>(blockIdx.x % tiles * kThreads + threadIdx.x);
  if (n >= T) return;
  const Real* rows = op.d_s.value.at(r) + std::int64_t{bh} * Q * T + n;
  Real sum = 0;
#pragma unroll 8
  for (int i = 0; i < Q; ++i) sum += rows[std::int64_t{i} * T];
  put(op.log_decay.write, HeadRows<Real>(op.log_decay.gradient, r, bh / H, bh % H, T, H, 1)(n), sum);
}

/// d_slope or d_sink: sum over sequences and queries. A warp a head.
template <class Real, Wanted kWanted>
__global__ void __launch_bounds__(32) sum_rows(const __grid_constant__ Attend<Real> op) {
  const In<Real>& field = kWanted == Wanted::sink ? op.sink : op.slope;
  const int B = op.B(), H = op.H(), Q = op.Q(), T = op.T();
  const int h = blockIdx.x, r = blockIdx.y;
  Real sum = 0;
  for (int bi = threadIdx.x; bi < B * Q; bi += 32)
    sum += op.d_s.value.at(r)[((std::int64_t{bi / Q} * H + h) * Q + bi % Q) * T];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) put(field.write, field.gradient.at(r) + h, -sum);
}

template <class Real>
dim3 row_grid(const Attend<Real>& op) {
  const std::int64_t rows = std::int64_t{op.B()} * op.H() * op.Q();
  return dim3(blocks_for(rows, kWarps), static_cast<unsigned>(op.R()));
}

template <class Real>
bool empty(const Attend<Real>& op) {
  return op.R() == 0 || op.B() == 0 || op.H() == 0 || op.Q() == 0 || op.T() == 0 || (op.k && op.K() == 0);
}

/// The key of one query that a warp takes: tiles of kWarps tokens of each sequence and head.
template <class Real>
struct OneKey {
  int r, b, h, t, lane;
  bool exists, seen;
  std::int64_t at;  ///< of the token in a row of weights
  __device__ explicit OneKey(const Attend<Real>& op) : r(static_cast<int>(blockIdx.y)), lane(CT_LANE) {
    const int T = op.T(), H = op.H(), tiles = (T + kWarps - 1) / kWarps;
    const int bh = static_cast<int>(blockIdx.x) / tiles;
    t = static_cast<int>(blockIdx.x) % tiles * kWarps + CT_WARP;
    b = bh / H, h = bh % H;
    exists = t < T;
    const SeenTokens tokens = seen_tokens(op, r, b, 0);
    seen = t >= tokens.first && t < tokens.last;
    at = std::int64_t{bh} * T + t;
  }
};
template <class Real>
dim3 key_grid(const Attend<Real>& op) {
  return dim3(blocks_for(op.T(), kWarps) * static_cast<unsigned>(op.B() * op.H()),
              static_cast<unsigned>(op.R()));
}

/// out_t = scale x.k_t, 0 of what is not seen.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    one_query(const __grid_constant__ Attend<Real> op, const Tensor<Real> out) {
  const OneKey<Real> key(op);
  if (!key.exists) return;
  Real score = 0;
  if (key.seen) {
    const Real* x = HeadRows<Real>(op.x.value, key.r, key.b, key.h, 1, op.H(), op.K())(0);
    const Real* k = HeadRows<Real>(op.k.value, key.r, key.b, key.h, op.T(), op.H(), op.K())(key.t);
    score = static_cast<Real>(op.scale) * warp_dot(x, k, op.K());
  }
  if (key.lane == 0) out.at(key.r)[key.at] = score;
}

/// d_k_t = scale weight_t x, 0 of what is not seen.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    one_query_d_k(const __grid_constant__ Attend<Real> op, const Tensor<Real> weights, Real scale) {
  const OneKey<Real> key(op);
  if (!key.exists || (!key.seen && op.k.write == Write::add)) return;
  const Real weight = key.seen ? scale * weights.at(key.r)[key.at] : Real(0);
  const Real* x = HeadRows<Real>(op.x.value, key.r, key.b, key.h, 1, op.H(), op.K())(0);
  Real* d_k = HeadRows<Real>(op.k.gradient, key.r, key.b, key.h, op.T(), op.H(), op.K())(key.t);
  for (int j = key.lane; j < op.K(); j += 32) put(op.k.write, d_k + j, weight * x[j]);
}

/// True if the columns of products are masked by positions, which sequences share: one head, queries beside it.
template <class Real>
bool by_sequences(const Attend<Real>& op) {
  return op.H() == 1 && op.position;
}

/// c = scale a b of every sequence and head; of those with positions, masked.
template <bool kAlongA, bool kAlongB, Mask kMask, class Real>
void product_of_heads(const Exec& exec, const char* name, const Attend<Real>& op, int M, int N, int K,
                      const Operand<Real>& a, const Operand<Real>& b, const Operand<Real>& c, Real scale,
                      Write mode) {
  const auto run = [&](auto p) {
    p.M = M, p.N = N, p.K = K;
    p.a = a, p.b = b, p.c = c, p.scale = scale, p.mode = mode;
    p.seen = {op.position.value.data, op.position.value.replica_stride, op.Q(), 0};
    gemm<Real>(exec, name, p, op.B() * op.H(), op.R());
  };
  if (by_sequences(op)) return run(Product<Real, kAlongA, kAlongB, kMask>());
  run(Product<Real, kAlongA, kAlongB>());
}

/// Scaled products of queries and keys into `out`. What is not seen may be anything, but 0
/// where all of the op is plain products.
template <class Real>
void products(const Exec& exec, const Attend<Real>& op, const Tensor<Real>& out) {
  if (op.Q() == 1)
    return launch(exec, "attend (one query)", one_query<Real>, key_grid(op), kThreads, 0, op, out);
  product_of_heads<true, true, Mask::c_columns>(
      exec, "attend", op, op.Q(), op.T(), op.K(), token_rows(op.x.value), token_rows(op.k.value),
      head_matrices(out), static_cast<Real>(op.scale), Write::overwrite);
}

/// d_x = scale weights k and d_k = scale weights^T x, weights being those of what is seen.
template <class Real>
void query_gradient(const Exec& exec, const Attend<Real>& op, const Tensor<Real>& weights, Real scale) {
  const int Q = op.Q(), T = op.T(), K = op.K();
  if (Q == 1 && by_sequences(op)) {
    ColumnSum<Real> sum;
    sum.rows = T, sum.columns = K, sum.batch = op.B();
    sum.x = op.k.value.data, sum.x_replica = op.k.value.replica_stride, sum.x_batch = std::int64_t{T} * K;
    sum.weight = weights.data, sum.weight_replica = weights.replica_stride, sum.weight_batch = T;
    sum.seen = op.position.value.data, sum.seen_replica = op.position.value.replica_stride;
    sum.scale = scale;
    sum.mode = op.x.write;
    sum.out = op.x.gradient.data, sum.out_replica = op.x.gradient.replica_stride, sum.out_batch = K;
    return column_sum(exec, "attend backward (x)", sum, op.R());
  }
  product_of_heads<true, false, Mask::a_columns>(exec, "attend backward (x)", op, Q, K, T,
                                                 head_matrices(weights), token_rows(op.k.value),
                                                 token_rows(op.x.gradient), scale, op.x.write);
}
template <class Real>
void key_gradient(const Exec& exec, const Attend<Real>& op, const Tensor<Real>& weights, Real scale) {
  if (op.Q() == 1)
    return launch(exec, "attend backward (k of one query)", one_query_d_k<Real>, key_grid(op), kThreads, 0,
                  op, weights, scale);
  product_of_heads<false, false, Mask::a_rows>(exec, "attend backward (k)", op, op.T(), op.K(), op.Q(),
                                               head_matrices(weights), token_rows(op.x.value),
                                               token_rows(op.k.gradient), scale, op.k.write);
}

/// d_slope or d_sink.
template <Wanted kWanted, class Real>
void head_gradient(const Exec& exec, const Attend<Real>& op) {
  launch(exec, "attend backward (rows of a head)", row_gradients<Real, kWanted>, row_grid(op), kThreads, 0,
         op);
  launch(exec, "attend backward (head)", sum_rows<Real, kWanted>, per_replica(op.H(), op.R()), 32, 0, op);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Attend<Real>& op) {
  if (empty(op)) return;
  if (op.k) products(exec, op, op.a.value);
  if (!op.plain()) launch(exec, "attend (rows)", weigh<Real>, row_grid(op), kThreads, 0, op);
}

template <class Real>
void backward_cuda(const Exec& exec, const Attend<Real>& op) {
  if (empty(op)) return;
  const int T = op.T(), H = op.H();
  if (op.plain()) {
    if (op.x.wanted()) query_gradient(exec, op, op.a.gradient, static_cast<Real>(op.scale));
    if (op.k.wanted()) key_gradient(exec, op, op.a.gradient, static_cast<Real>(op.scale));
    return;
  }
  const bool products_needed = op.k && op.curved();
  const auto rows = [&](const char* name, auto* kernel) {
    launch(exec, name, kernel, row_grid(op), kThreads, 0, op);
  };
  if (op.extra.wanted()) {
    if (products_needed) products(exec, op, op.d_s.value);
    rows("attend backward (extra)", row_gradients<Real, Wanted::extra>);
  }
  if (op.x.wanted() || op.k.wanted()) {
    if (products_needed) products(exec, op, op.d_s.value);
    rows("attend backward (rows)", row_gradients<Real, Wanted::score>);
  }
  if (op.x.wanted()) query_gradient(exec, op, op.d_s.value, Real(1));
  if (op.k.wanted()) key_gradient(exec, op, op.d_s.value, Real(1));
  if (op.log_decay.wanted()) {
    rows("attend backward (rows of log_decay)", row_gradients<Real, Wanted::decay>);
    launch(exec, "attend backward (log_decay)", sum_queries<Real>,
           per_replica(blocks_for(T, kThreads) * static_cast<unsigned>(op.B() * H), op.R()), kThreads, 0, op);
  }
  if (op.slope.wanted()) head_gradient<Wanted::slope>(exec, op);
  if (op.sink.wanted()) head_gradient<Wanted::sink>(exec, op);
}

CROSSTALK_INSTANTIATE(cuda, Attend)

}  // namespace crosstalk
