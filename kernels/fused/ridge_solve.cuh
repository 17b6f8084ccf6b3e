// RidgeRead in three steps: H before each chunk of tokens; x of every query, from the chunk's H on; and o = S x,
// which is StateRead with x in place of q. Backward is two StateReads and the same solution (ridge_read.h).
//
// A team of S warps solves the queries of a group of tokens one by one, H in its registers, each lane with N of its
// 32 N S rows: a product H d needs d alone, which lies in shared memory. Groups of one chunk first walk to where they
// start. Up to 64 keys a team is a warp, up to 128 a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/row_cells.cuh"
#include "kernels/law/ridge_read.h"

namespace crosstalk::device {

using RidgeOp = RidgeRead<float>;

constexpr int kRidgeLargest = 128;  ///< K
constexpr int kRidgeGroup = 16;     ///< tokens whose queries a team solves
constexpr int kRidgeWarps = 4;      ///< of a block

/// A token's effect on H: e^g and w.
struct RidgeToken {
  float fade, gain;
  __device__ RidgeToken(const law::Rows<float>& log_decay, const law::Rows<float>& gains, int t)
      : fade(log_decay ? expf(log_decay.row(t)[0]) : 1.0f), gain(gains.number(t, 1)) {}
};

/// H before every `chunk` tokens, [R,B,H,chunks,K*K], and behind the last. A block a sequence and head.
template <int C>
__global__ void __launch_bounds__(C > 16 ? 512 : 256)
    ridge_states(const __grid_constant__ RidgeOp op, const __grid_constant__ Tensor<float> states,
                 int chunk) {
  constexpr int kStaged = 16;
  __shared__ alignas(16) float keys[kStaged][4 * C];
  __shared__ float numbers[kStaged][2];
  const RowCells<C> cells;
  const int item = static_cast<int>(blockIdx.x), r = static_cast<int>(blockIdx.y);
  const int T = op.T(), H = op.H(), K = op.K(), b = item / H, h = item % H, chunks = (T + chunk - 1) / chunk;
  const int thread = CT_THREAD;
  const law::Rows<float> k(op.k, r, b, h, T, H, K), gains(op.gain, r, b, h, T, H, 1),
      log_decay(op.log_decay, r, b, h, T, H, 1);
  const std::int64_t size = std::int64_t{K} * K;
  float G[C], x[C];
  cells.load(op.start_keys ? op.start_keys.value.at(r) + item * size : nullptr, K, K, G);
  for (int t = 0; t < T; ++t) {
    const int s = t % kStaged;
    if (s == 0) {
      __syncthreads();
      for (int i = thread; i < kStaged * 4 * C; i += static_cast<int>(blockDim.x)) {
        const int at = t + i / (4 * C), j = i % (4 * C);
        keys[i / (4 * C)][j] = at < T && j < K ? k.row(at)[j] : 0.0f;
      }
      if (thread < kStaged && t + thread < T) {
        const RidgeToken token(log_decay, gains, t + thread);
        numbers[thread][0] = token.fade, numbers[thread][1] = token.gain;
      }
      __syncthreads();
    }
    if (t % chunk == 0)
      cells.store(Write::overwrite, states.at(r) + (std::int64_t{item} * chunks + t / chunk) * size, K, K, G);
    const float fade = numbers[s][0], own = cells.row < K ? numbers[s][1] * keys[s][cells.row] : 0.0f;
    cells.columns_of(keys[s], x);
    CT_FOR(c, C) G[c] = fade * G[c] + own * x[c];
  }
  if (op.end_keys && op.end_keys.value.data)
    cells.store(Write::overwrite, op.end_keys.value.at(r) + item * size, K, K, G);
}

/// A team that solves the queries of a group of tokens. A lane's numbers of vectors, N of each, and of H, M, stand apart from what has
/// no arrays.
template <int N, int S>
struct RidgeTeam {
  static_assert(S == 1 || S == kRidgeWarps, "teams meet as warps or as blocks do");
  static constexpr int kWide = 32 * N * S, kLanes = 32 * S;
  using Vector = float[N];
  using Matrix = float[N][kWide];
  const RidgeOp& op;
  float *row, *sums;  ///< shared: a vector; parts of two sums in turn
  const int T = op.T(), Q = op.Q(), H = op.H(), K = op.K(), r = static_cast<int>(blockIdx.y);
  const int groups = (T + kRidgeGroup - 1) / kRidgeGroup, lane = CT_THREAD % kLanes;
  const int at = static_cast<int>(blockIdx.x) * (kRidgeWarps / S) + CT_THREAD / kLanes;
  const int item = at / groups, b = item / H, h = item % H, first = at % groups * kRidgeGroup,
            end = first + kRidgeGroup < T ? first + kRidgeGroup : T;
  const std::int32_t* const position = op.position ? op.position.value.at(r) + std::int64_t{b} * Q : nullptr;
  int parity = 0;  ///< of the sum: the one before may still be read

  /// True if a query sees tokens of the group alone. By all lanes of a warp.
  __device__ bool wanted() const {
    if (!position) return true;
    bool any = false;
    for (int i = lane % 32; i < Q; i += 32) {
      const int seen = clamped(position[i], T);
      any |= seen > (first > 0 ? first : -1) && seen <= end;
    }
    return __any_sync(kFullWarp, any);
  }
  CT_DEVICE void read(const float* from, Vector& to) const {
    CT_FOR(i, N) to[i] = lane + kLanes * i < K ? from[lane + kLanes * i] : 0.0f;
  }
  CT_DEVICE void read(const float* from, Matrix& to) const {
    CT_FOR2(i, N, c, kWide)  // symmetric: neighbours in memory are neighbours among lanes
      to[i][c] = c < K && lane + kLanes * i < K ? from[c * K + lane + kLanes * i] : 0.0f;
  }
  __device__ static void meet() { S == 1 ? __syncwarp() : __syncthreads(); }
  CT_DEVICE void show(const Vector& x, bool is_read = false) const {
    if (S == 1 || !is_read) meet();  // a block's sums are behind what it read
    CT_FOR(i, N) row[lane + kLanes * i] = x[i];
    meet();
  }
  /// f(i, j, x[j]) of this lane's numbers of M and the vector that show() has shown.
  CT_DEVICE void each(auto&& f) const {
    CT_UNROLL(int c = 0; c < kWide; c += 4) {
      const Four<float> d = *reinterpret_cast<const Four<float>*>(row + c);
      CT_FOR2(j, 4, i, N) f(i, c + j, d.v[j]);
    }
  }
  CT_DEVICE float dot(const Vector& x, const Vector& y) {
    float sum = 0;
    CT_FOR(i, N) sum += x[i] * y[i];
    sum = warp_sum(sum);
    if constexpr (S > 1) {
      float* const parts = sums + parity * S;
      parity ^= 1;
      if (lane % 32 == 0) parts[lane / 32] = sum;
      meet();
      sum = parts[0];
      CT_UNROLL(int i = 1; i < S; ++i) sum += parts[i];
    }
    return sum;
  }
  /// x of (H + ridge) x = residual, by conjugate gradients.
  CT_DEVICE void solve(const Matrix& M, const Vector& ridge, Vector& residual, Vector& x) {
    Vector direction, product;
    CT_FOR(i, N) x[i] = 0, direction[i] = residual[i];
    float squares = dot(residual, residual);
    const float enough = kRidgeEnough<float> * squares;
    for (int n = 0; n < op.iterations && squares > enough; ++n) {
      show(direction, true);
      float parts[N][4] = {};
      each([&](int i, int j, float d) { parts[i][j % 4] += M[i][j] * d; });
      CT_FOR(i, N)
        product[i] = (parts[i][0] + parts[i][1]) + (parts[i][2] + parts[i][3]) + ridge[i] * direction[i];
      const float curvature = dot(direction, product), length = curvature > 0 ? squares / curvature : 0.0f;
      CT_FOR(i, N) x[i] += length * direction[i], residual[i] -= length * product[i];
      const float left = dot(residual, residual), turn = left / squares;
      CT_FOR(i, N) direction[i] = residual[i] + turn * direction[i];
      squares = left;
    }
  }
};

/// Right sides [R,B,Q,H,K] to solutions, times `sign`; `also`: where the solution itself goes too, as its
/// `write` says. A team a group of tokens.
template <int N, int S>
__global__ void __launch_bounds__(32 * kRidgeWarps, 3)
    ridge_solve(const __grid_constant__ RidgeOp op, const __grid_constant__ Tensor<float> states, int chunk,
                const __grid_constant__ Tensor<float> right, const __grid_constant__ Tensor<float> solution,
                float sign, const __grid_constant__ In<float> also) {
  using Team = RidgeTeam<N, S>;
  __shared__ alignas(16) float rows[kRidgeWarps / S][Team::kWide];
  __shared__ float sums_of_warps[2 * S];
  Team team{op, rows[CT_THREAD / Team::kLanes], sums_of_warps};
  const int T = team.T, H = team.H, K = team.K, r = team.r, b = team.b, h = team.h, first = team.first;
  if (team.item >= op.B() * H || !team.wanted()) return;
  const law::Rows<float> k(op.k, r, b, h, T, H, K), gains(op.gain, r, b, h, T, H, 1),
      log_decay(op.log_decay, r, b, h, T, H, 1);
  typename Team::Matrix M;  // H
  typename Team::Vector ridge, key;
  team.read(op.ridge.value.at(r) + std::int64_t{team.item} * K, ridge);
  const std::int64_t chunks = (T + chunk - 1) / chunk;
  team.read(states.at(r) + (team.item * chunks + first / chunk) * K * K, M);
  int n = first / chunk * chunk;  // tokens in M
  team.read(k.row(n), key);
  RidgeToken next(log_decay, gains, n);
  for (;; ++n) {
    if (n > first || n == 0) {
      each_seeing(team.position, team.Q, T, n, [&](int query) {
        const std::int64_t where = ((std::int64_t{b} * team.Q + query) * H + h) * K;
        typename Team::Vector residual, x;
        team.read(right.at(r) + where, residual);
        team.solve(M, ridge, residual, x);
        CT_FOR(i, N) {
          const int j = team.lane + Team::kLanes * i;
          if (j >= K) continue;
          solution.at(r)[where + j] = sign * x[i];
          if (also.wanted()) put(also.write, also.gradient.at(r) + where + j, x[i]);
        }
      });
    }
    if (n == team.end) break;
    const RidgeToken token = next;
    team.show(key);
    CT_FOR(i, N) key[i] *= token.gain;
    team.each([&](int i, int j, float d) { M[i][j] = token.fade * M[i][j] + key[i] * d; });
    if (n + 1 < team.end) team.read(k.row(n + 1), key), next = RidgeToken(log_decay, gains, n + 1);
  }
}

/// The ridge's gradient, -sum of y x over queries: `y` holds -y. A block a sequence and head, kRidgeLargest
/// threads a part of the queries.
static __global__ void __launch_bounds__(4 * kRidgeLargest)
    ridge_gradient(const __grid_constant__ RidgeOp op, const __grid_constant__ Tensor<float> y) {
  __shared__ float sums[4][kRidgeLargest];
  const int H = op.H(), K = op.K(), Q = op.Q(), item = static_cast<int>(blockIdx.x),
            r = static_cast<int>(blockIdx.y);
  const int part = CT_THREAD / kRidgeLargest, j = CT_THREAD % kRidgeLargest;
  float sum = 0;
  if (j < K) {
    for (int i = part; i < Q; i += 4) {
      const std::int64_t at = ((std::int64_t{item / H} * Q + i) * H + item % H) * K + j;
      sum += y.at(r)[at] * op.x.value.at(r)[at];
    }
  }
  sums[part][j] = sum;
  __syncthreads();
  if (part == 0 && j < K)
    put(op.ridge.write, op.ridge.gradient.at(r) + std::int64_t{item} * K + j,
        (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]));
}

}  // namespace crosstalk::device
