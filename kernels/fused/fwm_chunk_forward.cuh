// The forward pass of the fast weight memory chunk by chunk; the formulas stand in fwm_chunk.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/fused/fwm_chunk.cuh"

namespace crosstalk::device {

struct FwmForwardShared {
  alignas(16) float inverse[2][16 * kFwmRow], values[16 * kFwmRow], gram[16 * 16];
  float4 terms[2][16];  // what N, c F and c^2 contribute to |X|^2; beta
  alignas(16) int ids[2][16];
  int current[16];
  alignas(16) float before[16], of_z[16], of_u[16], gamma;
};

template <int J>
std::size_t fwm_chunked_forward_bytes(int warps) {
  return sizeof(FwmForwardShared) +
         sizeof(float) * static_cast<std::size_t>(10 * FwmWarp<J>::kKeys + warps * (16 * kFwmRow + 20));
}

/// M of a chunk and what the chain wants of its tokens; by one warp. beta, id: of this lane's token, and then
/// of the next chunk's.
template <int J>
__device__ void fwm_prepare(const FwmWarp<J>& at, FwmForwardShared& shared, int chunk, const FwmKeys& keys,
                            float& beta, int& id) {
  const int t = at.lane % 16, next_id = at.value(chunk + 1, t);
  const float next_beta = at.beta_at(chunk + 1, t);
  __syncwarp();
  const float square = at.gram(keys, beta, shared.gram);
  const float product = beta * square, has = id >= 0 ? 1.0f : 0.0f;
  if (at.lane < 16) {
    shared.terms[chunk % 2][t] =
        make_float4(beta * (product - 2), has * 2 * beta * (1 - product), has * beta * product, beta);
    shared.ids[chunk % 2][t] = id;
  }
  beta = next_beta, id = next_id;
  float column[16];
  CT_FOR(i, 16) column[i] = i == t ? 1.0f : 0.0f;
  CT_FOR(j, 15)
    CT_UNROLL(int i = j + 1; i < 16; ++i) column[i] -= shared.gram[j * 16 + i] * column[j];
  if (at.lane < 16)
    CT_FOR(i, 16) shared.inverse[chunk % 2][i * kFwmRow + t] = column[i];
}

/// The chain of divisors of a chunk; by one warp. sums [warps][20]: |Z_t|^2, |S|^2; z [rows][kFwmRow], whose entries
/// at the chunk's values become those of X k_t. The loop stays one: only this warp fetches its instructions.
template <int J>
__device__ void fwm_chain(const FwmWarp<J>& at, FwmForwardShared& shared, int chunk, const float* sums,
                          float* z, float* scales, int stride) {
  const int t = at.lane % 16, first = at.first(chunk), count = at.count(chunk);
  const bool mine = at.lane < 16;  // the other lanes only shuffle
  const float4* terms = shared.terms[chunk % 2];
  const int* ids = shared.ids[chunk % 2];
  const float* inverse = shared.inverse[chunk % 2] + t * kFwmRow;
  const unsigned uncut = ~0u << count | (first == 0 ? 1u : 0u);  // not at the first step
  float N = 0, squares = 0, c = kFwmStart, before = c, after = c;
  fwm_over_warps(
      at.warps, [&](int w) { return make_float2(sums[w * 20 + t], sums[w * 20 + 16]); },
      [&](float2 part) { N += part.x, squares += part.y; });
  squares *= kFwmStart * kFwmStart;
  // Of token i: X k_t at its value, M_ti (0 of an absent value, which has no part in what follows), N and F. What the
  // next steps need is asked for before c is known: of the next token, and ids and entries of z of those behind it.
  const auto take = [&](int id) { return mine ? z[max(id, 0) * kFwmRow + t] : 0.0f; };
  int id = ids[0], id_next = ids[1], id_behind = ids[2];
  float of_value = take(id), entry = take(id_next), row = id >= 0 ? inverse[0] : 0.0f;
  float N_i = __shfl_sync(kFullWarp, N, 0), F_i = __shfl_sync(kFullWarp, of_value, 0);
  float4 term = terms[0];
#pragma unroll 4
  for (int i = 0; i < 16; ++i) {
    const int next = min(i + 1, 15), id_last = ids[min(i + 3, 15)];
    const float4 term_next = terms[next];
    const float row_next = inverse[next];
    const float h = row * c, left = of_value - h;  // the token's value becomes part of later products
    N = fmaf(h, h - 2 * of_value, N);
    of_value = id_next == id ? left : entry;
    const float N_next = __shfl_sync(kFullWarp, N, next), F_next = __shfl_sync(kFullWarp, of_value, next);
    if (mine && id >= 0) z[id * kFwmRow + t] = left;
    entry = take(id_behind);
    const float known = fmaf(term.x, N_i, squares);
    squares = fmaxf(fmaf(c, fmaf(term.z, c, term.y * F_i), known), 0.0f);
    float inverse_root;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse_root) : "f"(squares));
    const float root = squares * inverse_root;
    const bool cut = squares > c * c && !(uncut >> i & 1);
    if (i == t) before = c;
    c = cut ? fmaf(0.5f * inverse_root, fmaf(-root, root, squares), root) : c;
    if (i == t) after = c;
    id = id_next, id_next = id_behind, id_behind = id_last, term = term_next;
    row = id >= 0 ? row_next : 0.0f, N_i = N_next, F_i = F_next;
  }
  const float inverse_before = fwm_reciprocal(before), inverse_end = fwm_reciprocal(c);
  if (mine) shared.before[t] = before;
  __syncwarp();
  if (!mine) return;
  CT_UNROLL(int i = 0; i < 16; i += 4) {
    const float4 c4 = fwm_float4(shared.before + i), m4 = fwm_float4(inverse + i);
    const int4 v = *reinterpret_cast<const int4*>(ids + i);
    const auto value = [&](int id, float m, float c) { return (id >= 0 ? m : 0.0f) * (c * inverse_before); };
    *reinterpret_cast<float4*>(shared.values + t * kFwmRow + i) = make_float4(
        value(v.x, m4.x, c4.x), value(v.y, m4.y, c4.y), value(v.z, m4.z, c4.z), value(v.w, m4.w, c4.w));
  }
  shared.of_z[t] = -inverse_before;
  shared.of_u[t] = terms[t].w * (before * inverse_end);
  shared.current[t] = ids[t];
  if (t == 0) shared.gamma = kFwmStart * inverse_end;
  if (scales && t < count)
    scales[std::int64_t{first + t} * stride] = after > before ? before * fwm_reciprocal(after) : 1.0f;
}

/// Z of this warp's rows to z, and the sums over them that the chain reads: |Z_t|^2 and |X|^2.
template <int J>
CT_DEVICE void fwm_measure(const FwmWarp<J>& at, const float (&x)[J][2][4], float (&Z)[2][4], float* z,
                           float* sums) {
  const int g = at.g, q = at.q;
  float squares[4] = {}, norm[2] = {};
  CT_FOR(m, 2) {
    CT_FOR(i, 4) {
      Z[m][i] *= kFwmStart;
      squares[2 * m + i % 2] += Z[m][i] * Z[m][i];
    }
    CT_FOR(half, 2)
      *reinterpret_cast<float2*>(z + at.row(half) * kFwmRow + 8 * m + 2 * q) =
          make_float2(Z[m][2 * half], Z[m][2 * half + 1]);
  }
  CT_FOR2(j, J, i, 4) {
    norm[0] += x[j][0][i] * x[j][0][i];
    norm[1] += x[j][1][i] * x[j][1][i];
  }
  CT_UNROLL(int offset = 4; offset < 32; offset *= 2)
    CT_FOR(i, 4) squares[i] += __shfl_xor_sync(kFullWarp, squares[i], offset);
  const float total = warp_sum(norm[0] + norm[1]);
  if (g == 0) {
    CT_FOR(i, 4) sums[at.warp * 20 + 8 * (i / 2) + 2 * q + i % 2] = squares[i];
    if (q == 0) sums[at.warp * 20 + 16] = total;
  }
}

/// The errors u once the chain has the divisors: kept for backward, and scaled to be written.
template <int J>
CT_DEVICE void fwm_errors(const FwmWarp<J>& at, const FwmForwardShared& shared, int chunk, float* kept,
                          int stride, float (&Z)[2][4]) {
  const int q = at.q;
  float hot[2][4];
  CT_FOR2(s, 2, i, 2) {
    const int token = 8 * s + 2 * q + i, id = shared.current[token];
    const float scale = shared.of_z[token];
    CT_FOR(half, 2) {
      hot[s][2 * half + i] = id == at.row(half) ? 1.0f : 0.0f;
      Z[s][2 * half + i] *= scale;
    }
  }
  at.template times_matrix<true, true>(hot, shared.values, Z);  // the errors u
  CT_FOR2(s, 2, i, 2) {
    const int token = 8 * s + 2 * q + i, t = at.first(chunk) + token;
    const float scale = shared.of_u[token];
    CT_FOR(half, 2) {
      if (kept && token < at.count(chunk) && at.row(half) < stride - 4)
        kept[std::int64_t{t} * stride + at.row(half)] = Z[s][2 * half + i];
      Z[s][2 * half + i] *= scale;
    }
  }
}

/// o = S q.
template <int J>
CT_DEVICE void fwm_read_state(const FwmWarp<J>& at, const float* query, float* o, const float (&x)[J][2][4]) {
  const int q = at.q;
  float read[2] = {};
  CT_FOR(j, J) {
    float four[4];
    take4(query + at.column(j), at.column(j) < at.P, four);
    CT_FOR(i, 4) {
      read[0] += x[j][i % 2][i / 2] * four[i];
      read[1] += x[j][i % 2][2 + i / 2] * four[i];
    }
  }
  CT_FOR(half, 2) {
    read[half] += __shfl_xor_sync(kFullWarp, read[half], 1);
    read[half] += __shfl_xor_sync(kFullWarp, read[half], 2);
    if (q == 0 && at.row(half) < at.V) o[at.row(half)] = read[half];
  }
}

/// Blocks a multiprocessor: as many as its registers hold without many spills.
template <int J, int kWarps>
constexpr int kFwmForwardBlocks = kWarps <= 3   ? (J == 4 ? 5 : 3)
                                  : kWarps <= 7 ? (J == 4 ? 3 : 2)
                                                : (kWarps <= 11 && J == 4 ? 2 : 1);

template <int J, int kWarps>
__global__ void __launch_bounds__(32 * (kWarps + 1), kFwmForwardBlocks<J, kWarps>)
    fwm_forward_chunked(const __grid_constant__ FwmRead<float> a) {
  extern __shared__ __align__(16) unsigned char raw[];
  FwmWarp<J> at(a, a.o.value.columns());
  auto& shared = *reinterpret_cast<FwmForwardShared*>(raw);
  float *keys = reinterpret_cast<float*>(raw + sizeof(FwmForwardShared)), *z = keys + 10 * at.kKeys,
        *sums = z + at.warps * 16 * kFwmRow;
  const int b = blockIdx.x, r = blockIdx.y, V = at.V, P = at.P, g = at.g, q = at.q;
  const auto keys_of = [&](int chunk) {
    return FwmKeys{keys + chunk % 2 * 2 * at.kKeys, keys + (4 + chunk % 3 * 2) * at.kKeys};
  };
  at.choose_length(keys, 3 * at.kKeys - 1);
  const int chunks = at.chunks(), stride = a.kept.value ? a.kept.value.columns() : 0;
  const std::int64_t size = std::int64_t{V} * P;
  float* checkpoints =
      a.states ? a.states.value.at(r) + std::int64_t{b} * a.states.value.dim(2) * size : nullptr;
  float* kept = a.kept.value ? a.kept.value.at(r) + std::int64_t{b} * at.T * stride : nullptr;
  if (at.warp == at.warps) {
    float beta = at.beta_at(0, at.lane % 16);
    int id = at.value(0, at.lane % 16);
    if (kept && at.seen > 0 && at.lane == 0) fwm_note_length(kept, stride, at.length);
    __syncthreads();
    if (chunks > 0) fwm_prepare(at, shared, 0, keys_of(0), beta, id);
    if (chunks > 1) fwm_prepare(at, shared, 1, keys_of(1), beta, id);
    __syncthreads();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      __syncthreads();
      fwm_chain(at, shared, chunk, sums, z, kept ? kept + stride - 4 : nullptr, stride);
      __syncthreads();
      if (chunk + 2 < chunks) fwm_prepare(at, shared, chunk + 2, keys_of(chunk + 2), beta, id);
    }
    return;
  }
  float x[J][2][4] = {};
  at.fetch(keys_of(0), 0);
  at.fetch(keys_of(1), 1);
  at.split(keys_of(0));
  at.split(keys_of(1));
  __syncthreads();
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const FwmKeys now = keys_of(chunk);
    float y[2][4], Z[2][4] = {};
    at.times_keys(x, now, y);
    at.template times_matrix<true>(y, shared.inverse[chunk % 2], Z);
    fwm_measure(at, x, Z, z, sums);
    __syncthreads();  // the chain may begin
    if (chunk + 2 < chunks) at.fetch(keys_of(chunk + 2), chunk + 2);
    if (chunk > 0 && checkpoints) at.store(checkpoints + chunk * size, x);  // the first is zero
    if (chunk + 2 < chunks) at.split(keys_of(chunk + 2));
    __syncthreads();  // it has ended
    fwm_errors(at, shared, chunk, kept, stride, Z);
    const float gamma = shared.gamma;
    CT_FOR2(j, J, i, 4) x[j][0][i] *= gamma, x[j][1][i] *= gamma;
    at.add_keys(x, Z, now);
  }
  fwm_read_state(at, a.q.value.at(r) + std::int64_t{b} * P, a.o.value.at(r) + std::int64_t{b} * V, x);
}

}  // namespace crosstalk::device
