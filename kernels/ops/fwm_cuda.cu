// The fast weight memory: a block a sequence; chunk by chunk on the tensor cores in single precision with one
// query (fwm_chunk.cuh), else step by step with the state in registers where it fits (fwm_registers.cuh).
// Here, what does not fit: a warp owns rows of the state and a lane its columns, in every pass over it, so
// that the state needs no barrier; only sums over it do. The rescaling of a step is applied when the next one
// reads the state.
//
// The state lies in shared memory where it fits. Where it does not, the forward pass works in the checkpoint
// that the running segment will fill; the last segment has no such place, so it works in its own checkpoint
// and mends it by running the segment before it again: no workspace, the same bits, one segment more.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/base/cuda_launch.cuh"
#include "kernels/batch.h"
#include "kernels/ops/fwm.h"
#include "kernels/ops/fwm_chunk_backward.cuh"
#include "kernels/ops/fwm_chunk_forward.cuh"
#include "kernels/ops/fwm_registers.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kForwardWarps = 16, kBackwardWarps = 8, kLargestP = 1024;

// E columns a lane. Up to 8 a row lies in registers; more are looped over, in local memory: right, but slow,
// and nobody waits minutes for their compilation. One sequence: its keys, and the threads that walk it.
template <class Real, int W, int E>
struct Walker {
  int T, P, V, C, warp, lane;
  const Real *k, *beta;
  const std::int32_t* tokens;
  Real* parts;  // shared [2][W]
  int phase;

  __device__ void load(const Real* p, Real (&x)[E]) const {
#pragma unroll(E > 8 ? 1 : E)
    for (int j = 0; j < E; ++j) x[j] = lane + 32 * j < P ? p[lane + 32 * j] : Real(0);
  }
  __device__ void store(Real* p, const Real (&x)[E]) const {
#pragma unroll(E > 8 ? 1 : E)
    for (int j = 0; j < E; ++j) {
      if (lane + 32 * j < P) p[lane + 32 * j] = x[j];
    }
  }
  __device__ static Real share(const Real (&x)[E], const Real (&y)[E]) {
    Real sum = 0;
#pragma unroll(E > 8 ? 1 : E)
    for (int j = 0; j < E; ++j) sum += x[j] * y[j];
    return sum;
  }
  __device__ const Real* key(int t) const { return k + static_cast<std::int64_t>(t) * P; }
  __device__ int value(int t) const { return tokens[static_cast<std::int64_t>(t) * C + channel_value]; }
  __device__ std::int64_t row(int v) const { return static_cast<std::int64_t>(v) * P; }

  /// Sum over the block of what each lane holds.
  __device__ Real block_sum(Real x) {
    x = warp_sum(x);
    return block_sum_of_warps(x);
  }
  /// Sum over the block of what each warp holds.
  __device__ Real block_sum_of_warps(Real x) {
    Real* buffer = parts + phase * W;  // two buffers in turn: one barrier a sum
    phase ^= 1;
    if (lane == 0) buffer[warp] = x;
    __syncthreads();
    Real total = 0;
#pragma unroll
    for (int w = 0; w < W; ++w) total += buffer[w];
    return total;
  }
  /// Step t: target = scale source + beta (v - scale source k) k^T. Returns the norm that the result is to be
  /// divided by (1: none).
  __device__ Real step(const Real* source, Real scale, Real* target, int t) {
    constexpr int kRows = E >= 16 ? 1 : 16 / E < 4 ? 16 / E : 4;  // rows at once, so that their sums overlap
    Real keys[E], squares = 0;
    load(key(t), keys);
    const Real write_beta = beta[t];
    const int wanted = value(t);
    for (int v0 = warp; v0 < V; v0 += W * kRows) {
      Real x[kRows][E], dots[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int v = v0 + i * W;
        if (v < V) {
          load(source + row(v), x[i]);
        } else {
#pragma unroll(E > 8 ? 1 : E)
          for (int j = 0; j < E; ++j) x[i][j] = 0;
        }
#pragma unroll(E > 8 ? 1 : E)
        for (int j = 0; j < E; ++j) x[i][j] *= scale;
        dots[i] = share(x[i], keys);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) dots[i] = warp_sum(dots[i]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int v = v0 + i * W;
        if (v >= V) break;
        const Real write = write_beta * ((v == wanted ? Real(1) : Real(0)) - dots[i]);
#pragma unroll(E > 8 ? 1 : E)
        for (int j = 0; j < E; ++j) {
          x[i][j] += write * keys[j];
          squares += x[i][j] * x[i][j];
        }
        store(target + row(v), x[i]);
      }
    }
    const Real norm = sqrt(block_sum(squares));
    return t == 0 || !(norm > 1) ? Real(1) : norm;
  }
  /// target = scale source, on the rows of this warp.
  __device__ void copy(const Real* source, Real scale, Real* target) const {
    for (int v = warp; v < V; v += W) {
      Real x[E];
      load(source + row(v), x);
#pragma unroll(E > 8 ? 1 : E)
      for (int j = 0; j < E; ++j) x[j] *= scale;
      store(target + row(v), x);
    }
  }
  __device__ void clear(Real* target) const {
    const Real zero[E] = {};
    for (int v = warp; v < V; v += W) store(target + row(v), zero);
  }
};

template <class Real, int W, int E, class Args>
__device__ Walker<Real, W, E> make_walker(const Args& a, int V, Real* parts) {
  const int b = blockIdx.x, r = blockIdx.y, T = a.k.dim(1), P = a.k.dim(2), C = a.tokens.columns();
  const std::int64_t sequence = static_cast<std::int64_t>(b) * T;
  return {T,
          P,
          V,
          C,
          static_cast<int>(threadIdx.x / 32),
          static_cast<int>(threadIdx.x % 32),
          a.k.at(r) + sequence * P,
          a.beta.at(r) + sequence,
          a.tokens.at(r) + sequence * C,
          parts,
          0};
}

template <class Real, int E>
__global__ void __launch_bounds__(32 * kForwardWarps)
    fwm_forward(const FwmReadForward<Real> a, int segment, bool in_shared) {
  constexpr int W = kForwardWarps;
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ Real parts[2 * W];
  const int b = blockIdx.x, r = blockIdx.y, Q = a.q.dim(1), V = a.y.columns();
  auto walker = make_walker<Real, W, E>(a, V, parts);
  const int T = walker.T, segments = (T + segment - 1) / segment;
  const std::int64_t size = static_cast<std::int64_t>(V) * walker.P;
  const auto slot = [&](int s) {
    return a.checkpoints.at(r) + (static_cast<std::int64_t>(b) * segments + s) * size;
  };
  const std::int32_t* position = a.position.at(r) + static_cast<std::int64_t>(b) * Q;
  int next = next_position(position, Q, 0);
  const auto answer = [&](const Real* state, Real scale, int t) {
    for (int i = 0; i < Q; ++i) {
      if (position[i] != t) continue;
      Real q[E];
      walker.load(a.q.at(r) + (static_cast<std::int64_t>(b) * Q + i) * walker.P, q);
      for (int v = walker.warp; v < V; v += W) {
        Real x[E];
        walker.load(state + walker.row(v), x);
        const Real y = warp_sum(walker.share(x, q));
        if (walker.lane == 0) a.y.at(r)[(static_cast<std::int64_t>(b) * Q + i) * V + v] = scale * y;
      }
    }
    next = next_position(position, Q, t + 1);
  };

  Real* state = in_shared ? reinterpret_cast<Real*>(raw) : slot(0);
  walker.clear(state);
  Real scale = 1;
  for (int t = 0; t < T; ++t) {
    if (t == next) answer(state, scale, t);
    Real* target = state;
    if (t % segment == 0) {
      const int s = t / segment;
      walker.copy(state, scale, slot(s));
      scale = 1;
      if (in_shared) walker.copy(slot(s), scale, state);  // the rescaled state, as the checkpoint has it
      if (!in_shared) target = s + 1 < segments ? slot(s + 1) : slot(s);
    }
    scale = 1 / walker.step(state, scale, target, t);
    state = target;
  }
  if (next == T) answer(state, scale, T);
  if (in_shared) return;
  if (segments == 1) {
    walker.clear(slot(0));
    return;
  }
  scale = 1;  // the last checkpoint again
  for (int t = (segments - 2) * segment; t < (segments - 1) * segment; ++t) {
    const Real* source = t == (segments - 2) * segment ? slot(segments - 2) : slot(segments - 1);
    scale = 1 / walker.step(source, scale, slot(segments - 1), t);
  }
  walker.copy(slot(segments - 1), scale, slot(segments - 1));
}

// Shared memory: scales [segment + 1], column sums [W,P], then G [V,P] where it fits.
template <class Real, int E>
__global__ void __launch_bounds__(32 * kBackwardWarps)
    fwm_backward(const FwmReadBackward<Real> a, int segment, bool in_shared) {
  constexpr int W = kBackwardWarps, kThreads = 32 * W;
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ Real parts[2 * W];
  const int b = blockIdx.x, r = blockIdx.y, Q = a.q.dim(1), V = a.d_y.columns();
  auto walker = make_walker<Real, W, E>(a, V, parts);
  const int T = walker.T, P = walker.P, segments = (T + segment - 1) / segment, thread = threadIdx.x;
  const std::int64_t size = static_cast<std::int64_t>(V) * P;
  Real* states = a.workspace.at(r) + static_cast<std::int64_t>(b) * (segment + 2) * size;
  Real* scales = reinterpret_cast<Real*>(raw);
  Real* columns = scales + segment + 1;
  Real* G = in_shared ? columns + W * P : states + (segment + 1) * size;  // dL/dS_t
  walker.clear(G);
  const std::int32_t* position = a.position.at(r) + static_cast<std::int64_t>(b) * Q;
  int previous = previous_position(position, Q, T);

  // Adds up what the warps hold of each column; f(column, sum).
  const auto reduce_columns = [&](const Real(&x)[E], auto&& f) {
    __syncthreads();  // the sums before have been read
    walker.store(columns + walker.warp * P, x);
    __syncthreads();
    for (int j = thread; j < P; j += kThreads) {
      Real total = 0;
#pragma unroll
      for (int w = 0; w < W; ++w) total += columns[w * P + j];
      f(j, total);
    }
  };

  for (int s = segments - 1; s >= 0; --s) {
    const int begin = s * segment, end = min(T, begin + segment);
    walker.copy(a.checkpoints.at(r) + (static_cast<std::int64_t>(b) * segments + s) * size, Real(1), states);
    Real norm = 1;
    __syncthreads();
    if (thread == 0) scales[0] = 1;
    for (int t = begin; t < end; ++t) {
      norm = walker.step(states + (t - begin) * size, 1 / norm, states + (t - begin + 1) * size, t);
      if (thread == 0) scales[t - begin + 1] = norm;
    }
    __syncthreads();
    for (int t = end - 1; t >= begin; --t) {
      const Real* S = states + (t - begin) * size;
      const Real* following = states + (t - begin + 1) * size;
      const Real scale = 1 / scales[t - begin], n = scales[t - begin + 1], following_scale = 1 / n;
      if (t + 1 == previous) {  // reads after step t: y = S_t q
        for (int i = 0; i < Q; ++i) {
          if (position[i] != t + 1) continue;
          const std::int64_t query = static_cast<std::int64_t>(b) * Q + i;
          Real q[E], d_q[E] = {};
          walker.load(a.q.at(r) + query * P, q);
          for (int v = walker.warp; v < V; v += W) {
            const Real d_y = a.d_y.at(r)[query * V + v];
            Real g[E], x[E];
            walker.load(G + walker.row(v), g);
            walker.load(following + walker.row(v), x);
#pragma unroll(E > 8 ? 1 : E)
            for (int j = 0; j < E; ++j) {
              g[j] += d_y * q[j];
              d_q[j] += following_scale * x[j] * d_y;
            }
            walker.store(G + walker.row(v), g);
          }
          if (a.write_q == Write::none) continue;
          reduce_columns(d_q, [&](int j, Real x) { put(a.write_q, a.d_q.at(r) + query * P + j, x); });
        }
        previous = previous_position(position, Q, t);
      }
      Real along = 0;
      if (n > 1) {  // S_t = S'/|S'|: dS' = (G - S_t <S_t, G>) / |S'|
        for (int v = walker.warp; v < V; v += W) {
          Real g[E], x[E];
          walker.load(G + walker.row(v), g);
          walker.load(following + walker.row(v), x);
          along += walker.share(g, x);
        }
        along = following_scale * walker.block_sum(along);
      }
      Real k[E], d_k[E] = {}, d_beta = 0;
      walker.load(walker.key(t), k);
      const Real beta = walker.beta[t];
      const int wanted = walker.value(t);
      for (int v = walker.warp; v < V; v += W) {
        Real g[E], x[E];
        walker.load(G + walker.row(v), g);
        if (n > 1) {
          walker.load(following + walker.row(v), x);
#pragma unroll(E > 8 ? 1 : E)
          for (int j = 0; j < E; ++j) g[j] = (g[j] - following_scale * x[j] * along) / n;
        }
        walker.load(S + walker.row(v), x);
#pragma unroll(E > 8 ? 1 : E)
        for (int j = 0; j < E; ++j) x[j] *= scale;
        const Real g_k = warp_sum(walker.share(g, k));
        const Real error = (v == wanted ? Real(1) : Real(0)) - warp_sum(walker.share(x, k));
        d_beta += error * g_k;
#pragma unroll(E > 8 ? 1 : E)
        for (int j = 0; j < E; ++j) {
          d_k[j] += beta * (g[j] * error - x[j] * g_k);
          g[j] -= beta * g_k * k[j];
        }
        walker.store(G + walker.row(v), g);
      }
      d_beta = walker.block_sum_of_warps(d_beta);
      if (thread == 0 && a.write_beta != Write::none) {
        put(a.write_beta, a.d_beta.at(r) + static_cast<std::int64_t>(b) * T + t, d_beta);
      }
      if (a.write_k == Write::none) continue;
      reduce_columns(d_k, [&](int j, Real x) {
        put(a.write_k, a.d_k.at(r) + (static_cast<std::int64_t>(b) * T + t) * P + j, x);
      });
    }
  }
  for (int i = 0; i < Q && a.write_q == Write::overwrite; ++i) {  // a query that sees nothing
    if (position[i] > 0) continue;
    for (int j = thread; j < P; j += kThreads)
      a.d_q.at(r)[(static_cast<std::int64_t>(b) * Q + i) * P + j] = 0;
  }
}

template <class F>
void with_columns(const char* op, int P, F&& f) {
  using std::integral_constant;
  if (P <= 64) {
    f(integral_constant<int, 2>());
  } else if (P <= 128) {
    f(integral_constant<int, 4>());
  } else if (P <= 256) {
    f(integral_constant<int, 8>());
  } else if (P <= kLargestP) {
    f(integral_constant<int, 32>());
  } else {
    refuse_shape(op, "d_dot", P, kLargestP);
  }
}

constexpr std::size_t kStaticShared = 1024;  // at most what the kernels declare themselves

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const FwmReadForward<Real>& a) {
  const unsigned B = static_cast<unsigned>(a.k.dim(0)), R = static_cast<unsigned>(a.k.R);
  const int P = a.k.dim(2), V = a.y.columns();
  if (B == 0 || R == 0) return;
  if constexpr (std::is_same_v<Real, float>) {
    if (fwm_chunked<Real>(Device::cuda, a.q.dim(1), P, V)) {
      run_fwm_chunked(stream_of(exec), a);
      return check_launch("fast weight memory");
    }
  }
  if (run_fwm_registers(stream_of(exec), a)) return check_launch("fast weight memory");
  const std::size_t state = static_cast<std::size_t>(V) * static_cast<std::size_t>(P) * sizeof(Real);
  const bool in_shared = state + kStaticShared <= shared_memory_limit();
  const std::size_t bytes = in_shared ? state : 0;
  with_columns("fast weight memory", P, [&](auto entries) {
    const auto kernel = fwm_forward<Real, decltype(entries)::value>;
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(B, R), 32 * kForwardWarps, bytes, stream_of(exec)>>>(a, kFwmSegment, in_shared);
  });
  check_launch("fast weight memory");
}

template <class Real>
void run_cuda(const Exec& exec, const FwmReadBackward<Real>& a) {
  const unsigned B = static_cast<unsigned>(a.k.dim(0)), R = static_cast<unsigned>(a.k.R);
  const int P = a.k.dim(2), V = a.d_y.columns(), segment = kFwmSegment;
  if (B == 0 || R == 0) return;
  if constexpr (std::is_same_v<Real, float>) {
    if (fwm_chunked<Real>(Device::cuda, a.q.dim(1), P, V)) {
      run_fwm_chunked(stream_of(exec), a);
      return check_launch("fast weight memory backward");
    }
  }
  if (run_fwm_registers(stream_of(exec), a)) return check_launch("fast weight memory backward");
  const std::size_t state = static_cast<std::size_t>(V) * static_cast<std::size_t>(P) * sizeof(Real);
  const std::size_t least = static_cast<std::size_t>(segment + 1 + kBackwardWarps * P) * sizeof(Real);
  const bool in_shared = least + state + kStaticShared <= shared_memory_limit();
  const std::size_t bytes = least + (in_shared ? state : 0);
  with_columns("fast weight memory backward", P, [&](auto entries) {
    const auto kernel = fwm_backward<Real, decltype(entries)::value>;
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(B, R), 32 * kBackwardWarps, bytes, stream_of(exec)>>>(a, segment, in_shared);
  });
  check_launch("fast weight memory backward");
}

CROSSTALK_CUDA_OP(FwmReadForward)
CROSSTALK_CUDA_OP(FwmReadBackward)

}  // namespace crosstalk
