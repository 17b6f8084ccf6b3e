// Cross-entropy: in tiles where they fit; else products of row blocks by the op linear, a block a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/reduce.cuh"
#include "kernels/linear/joined_linear_wide.cuh"
#include "kernels/loss/cross_entropy_tiles.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// kHeld: words of a row that a thread of a block holds. kShortRow: words of a row that a warp reads.
constexpr int kThreads = 256, kHeld = 32, kShortRow = 256;

template <class Real>
CT_DEVICE Real exp_of(Real x) {
  if constexpr (sizeof(Real) == 4) return ::expf(x);
  return ::exp(x);
}

/// Who reads a row of logits: a block, or a warp, whose row has few words.
enum class RowTeam { block, warp };

template <RowTeam kTeam, class Real, class F>
CT_DEVICE Real over_team(Real x, const F& f) {
  if constexpr (kTeam == RowTeam::warp) return x;
  return over_warps(x, f);
}

/// A row of logits is read once where it fits the registers of its team. Gradients stand where the logits stood.
template <class Real, RowTeam kTeam, bool kFits>
__global__ void __launch_bounds__(kThreads, sizeof(Real) == sizeof(float) ? 4 : 1)
    entropy_rows(const __grid_constant__ CrossEntropy<Real> op, std::int64_t begin, std::int64_t count,
                 bool gradients) {
  constexpr int kSize = kTeam == RowTeam::warp ? 32 : kThreads;
  constexpr int kOwn = kTeam == RowTeam::warp ? kShortRow / 32 : kHeld;
  const int r = blockIdx.y, V = op.V(), first = threadIdx.x % kSize;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kSize) + threadIdx.x / kSize,
                     n = begin + row;
  if (row >= count) return;
  Real* y = op.logits.value.at(r) + row * V;
  const int target = op.target.value.at(r)[n];
  if (target < 0) {
    if (first == 0) op.query_loss.value.at(r)[n] = 0, op.correct.value.at(r)[n] = -1;
    if (gradients)
      for (int v = first; v < V; v += kSize) y[v] = 0;
    return;
  }
  Real held[kFits ? kOwn : 1];
  if constexpr (kFits) {
    CT_FOR(i, kOwn) {
      const int v = first + i * kSize;
      if (v < V) held[i] = y[v];
    }
  }
  const auto each = [&](auto&& f) {
    if constexpr (kFits) {
      CT_FOR(i, kOwn) {
        const int v = first + i * kSize;
        if (v < V) f(v, held[i]);
      }
    } else {
      for (int v = first; v < V; v += kSize) {
        Real x = y[v];
        f(v, x);
      }
    }
  };
  const Real right = y[target];
  Real top = right, lost = 0;
  each([&](int v, Real x) {
    top = x > top ? x : top;
    if (v != target && !(x < right)) lost = 1;
  });
  const auto larger = [](Real a, Real b) { return b > a ? b : a; };
  top = over_team<kTeam>(warp_max(top), larger);
  lost = over_team<kTeam>(warp_max(lost), larger);
  Real total = 0;
  each([&](int, Real& x) {  // a row that is held becomes its exponentials
    const Real e = exp_of(x - top);
    total += e;
    if (kFits) x = e;
  });
  total = over_team<kTeam>(warp_sum(total), [](Real a, Real b) { return a + b; });
  if (first == 0) {
    op.query_loss.value.at(r)[n] = log(total) + (top - right);
    op.correct.value.at(r)[n] = lost == 0;
  }
  if (!gradients) return;
  const Real share = op.share.value.at(r)[0];
  each([&](int v, Real x) {
    y[v] = ((kFits ? x : exp_of(x - top)) / total - (v == target ? Real(1) : Real(0))) * share;
  });
}

/// The same of whole fours, by exponentials to base 2 as in tiles; gradients in bf16 stand in `apart`. A row is read twice.
__global__ void __launch_bounds__(kThreads)
    rounded_rows(const __grid_constant__ CrossEntropy<float> op, std::int64_t begin, bool gradients,
                 const __grid_constant__ Tensor<float> apart) {
  const int r = blockIdx.y, fours = op.V() / 4;
  const std::int64_t n = begin + blockIdx.x, first = std::int64_t{blockIdx.x} * op.V();
  const float* const y = op.logits.value.at(r) + first;
  const auto* const x = reinterpret_cast<const Four<float>*>(y);
  auto* const out = reinterpret_cast<uint2*>(apart.bf16_at(r) + first);
  const int target = op.target.value.at(r)[n];
  if (target < 0) {
    if (threadIdx.x == 0) op.query_loss.value.at(r)[n] = 0, op.correct.value.at(r)[n] = -1;
    for (int i = threadIdx.x; gradients && i < fours; i += kThreads) out[i] = {};
    return;
  }
  const float right = y[target];
  float top = right, total = 0;
  bool lost = false;
#pragma unroll 4
  for (int i = threadIdx.x; i < fours; i += kThreads) {
    const Four<float> some = x[i];
    const float before = top;
    CT_FOR(e, 4) {
      top = fmaxf(top, some.v[e]);
      lost = lost || (4 * i + e != target && !(some.v[e] < right));
    }
    total *= power_of_two((before - top) * kLog2E);
    CT_FOR(e, 4) total += power_of_two((some.v[e] - top) * kLog2E);
  }
  const float mine = top;
  top = over_warps(warp_max(top), [](float a, float b) { return fmaxf(a, b); });
  total = block_sum(total * power_of_two((mine - top) * kLog2E));
  lost = __syncthreads_or(lost);
  if (threadIdx.x == 0) {
    op.query_loss.value.at(r)[n] = logf(total) + (top - right);
    op.correct.value.at(r)[n] = !lost;
  }
  const float share = op.share.value.at(r)[0], factor = share / total;
#pragma unroll 4
  for (int i = threadIdx.x; gradients && i < fours; i += kThreads) {
    Four<float> some = x[i];
    CT_FOR(e, 4)
      some.v[e] = power_of_two((some.v[e] - top) * kLog2E) * factor - (4 * i + e == target ? share : 0);
    out[i] = pairs_of(some);
  }
}

/// One block a replica, which all wait for: the sum of f(n) over its rows.
constexpr int kSumThreads = 1024;
template <class Real, class F>
__device__ Real sum_rows(std::int64_t rows, const F& f) {
  Real mine = 0;
#pragma unroll 8
  for (std::int64_t n = threadIdx.x; n < rows; n += kSumThreads) mine += f(n);
  return block_sum(mine);
}

template <class Real>
__global__ void __launch_bounds__(kSumThreads) used_share(const __grid_constant__ CrossEntropy<Real> op) {
  wait_for_earlier();
  const int r = blockIdx.x;
  const Real used = sum_rows<Real>(
      op.rows(), [&](std::int64_t n) { return op.target.value.at(r)[n] >= 0 ? Real(1) : Real(0); });
  if (threadIdx.x == 0) op.share.value.at(r)[0] = used > 0 ? 1 / used : Real(0);
}

template <class Real>
__global__ void __launch_bounds__(kSumThreads) mean_loss(const __grid_constant__ CrossEntropy<Real> op) {
  wait_for_earlier();
  const int r = blockIdx.x;
  const Real total = sum_rows<Real>(op.rows(), [&](std::int64_t n) { return op.query_loss.value.at(r)[n]; });
  if (threadIdx.x == 0) op.loss.value.at(r)[0] = total * op.share.value.at(r)[0];
}

template <int D, bool kMix>
void rows_in_tiles(const Exec& exec, const CrossEntropy<float>& op, const EntropyTiles& tiles) {
  const int R = op.x.value.R;
  const std::int64_t rows = op.rows();
  launch_early(exec, "cross_entropy (sums)", entropy_sums<D, kMix>,
               per_replica(std::int64_t{blocks_for(rows, EntropyTiles::kRows)} * tiles.parts, R),
               kEntropyThreads, kEntropyBytes<D>, op, tiles);
  launch_early(exec, "cross_entropy (rows)", finish_rows<D, kMix>,
               per_replica(blocks_for(EntropyTiles::whole(rows), kEntropyWarps), R), kEntropyThreads, 0, op,
               tiles);
}

template <int D>
void words_in_tiles(const Exec& exec, const CrossEntropy<float>& op, const EntropyTiles& tiles) {
  const std::int64_t words = op.V();
  launch_early(
      exec, "cross_entropy (words)", entropy_words<D>,
      per_replica(std::int64_t{blocks_for(words, EntropyTiles::kRows)} * tiles.w_parts, op.x.value.R),
      kEntropyThreads, kEntropyBytes<D>, op, tiles);
  const In<float> field = op.w;
  const int C = field.gradient.columns();
  const Tensor<float> pieces = op.tiles.value;
  const std::int64_t at = tiles.piece_at;
  sum_pieces<float, kEntropyThreads, 1>(
      exec, "cross_entropy (parts)", op.x.value.R, words * C, tiles.w_parts, words * D,
      [=] __device__(int r, std::int64_t i) { return pieces.at(r) + at + i / C * D + i % C; },
      [=] __device__(int r, std::int64_t i, float sum) { put(field.write, field.gradient.at(r) + i, sum); });
}

template <int D>
void in_tiles(const Exec& exec, const CrossEntropy<float>& op, const EntropyTiles& tiles, bool gradients) {
  const std::int64_t rows = EntropyTiles::whole(op.rows()) + EntropyTiles::whole(op.V());
  launch_early(exec, "cross_entropy (operands)", round_operands<D>,
               per_replica(blocks_for(rows * (D / 8), kEntropyThreads), op.x.value.R), kEntropyThreads, 0,
               op);
  if (gradients && op.x.wanted())
    rows_in_tiles<D, true>(exec, op, tiles);
  else
    rows_in_tiles<D, false>(exec, op, tiles);
  if (gradients && op.w.wanted()) words_in_tiles<D>(exec, op, tiles);
}

/// x in bf16, eight numbers a thread.
__global__ void __launch_bounds__(kThreads) round_rows(const __grid_constant__ CrossEntropy<float> op) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int r = blockIdx.y;
  if (i >= op.x.value.size() / 8) return;
  float v[4], u[4];
  const float* const from = op.x.value.at(r) + 8 * i;
  load4(from, 4, is_aligned16(from), v), load4(from + 4, 4, is_aligned16(from), u);
  reinterpret_cast<uint4*>(op.tiles.value.at(r))[i] =
      make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(u[0], u[1]), bf16_pair(u[2], u[3]));
}

/// Blocks of rows as maps of one output whose operands are bf16.
void by_products(const Exec& exec, const CrossEntropy<float>& op, bool gradients) {
  const std::int64_t rows = op.rows(), block = op.logits.value.dim(0);
  const int V = op.V(), D = op.x.value.columns(), R = op.x.value.R;
  const EntropyBlocks at(rows, V, D, static_cast<int>(block));
  const auto part = [&](std::int64_t from, std::int64_t count, int columns) {
    Tensor<float> t = op.tiles.value;
    t.data += from, t.rank = 2, t.dims[0] = static_cast<int>(count), t.dims[1] = columns;
    return t;
  };
  launch(exec, "cross_entropy (rows in bf16)", round_rows,
         per_replica(blocks_for(op.x.value.size() / 8, kThreads), R), kThreads, 0, op);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    const Linear<float> one = op.product(begin, count);
    JoinedLinear<float> maps;
    maps.precision = Precision::bf16, maps.outputs = 1;
    maps.x = one.x, maps.w[0] = one.w, maps.y[0].value = one.y.value;
    maps.x.value = part(begin * D / 2, count, D), maps.x.value.format = Format::bf16;
    maps.y[0].gradient = part(at.gradient_at, count, V), maps.y[0].gradient.format = Format::bf16;
    maps.operands.value = part(at.operand_at, at.maps.operand_size(), 1);
    maps.pieces.value = part(at.piece_at, at.maps.pieces, at.maps.piece_size);
    if (begin == 0) round_weights(exec, maps, at.maps);
    launch_wide<WideRole::forward>(exec, "cross_entropy (logits)", maps, at.maps);
    launch(exec, "cross_entropy", rounded_rows, dim3(static_cast<unsigned>(count), static_cast<unsigned>(R)),
           kThreads, 0, op, begin, gradients, maps.y[0].gradient);
    if (gradients && op.x.wanted())
      launch_wide<WideRole::inputs>(exec, "cross_entropy backward (x)", maps, at.maps);
    if (!gradients || !op.w.wanted()) continue;
    launch_wide<WideRole::weights>(exec, "cross_entropy backward (w)", maps, at.maps);
    const In<float> w = op.w;
    const Tensor<float> kept = part(at.sum_at, V, D);
    const bool first = begin == 0, last = begin + count == rows;
    sum_pieces<float, 256, 1>(
        exec, "cross_entropy backward (pieces)", R, std::int64_t{V} * D, at.maps.pieces, at.maps.piece_size,
        [=] __device__(int r, std::int64_t i) { return maps.pieces.value.at(r) + i; },
        [=] __device__(int r, std::int64_t i, float sum) {
          if (!first) sum += kept.at(r)[i];
          last ? put(w.write, w.gradient.at(r) + i, sum) : put(Write::overwrite, kept.at(r) + i, sum);
        });
  }
}

/// Returns true if it was done so.
template <class Real>
bool done_in_tiles(const Exec& exec, const CrossEntropy<Real>& op, bool gradients) {
  if constexpr (std::is_same_v<Real, float>) {
    if (op.tiles && op.fits_products()) return by_products(exec, op, gradients), true;
    if (!op.tiles || !op.fits_tiles()) return false;
    const EntropyTiles tiles(op.rows(), op.V(), op.x.value.columns());
    if (tiles.D == 32) in_tiles<32>(exec, op, tiles, gradients);
    if (tiles.D == 64) in_tiles<64>(exec, op, tiles, gradients);
    if (tiles.D == 128) in_tiles<128>(exec, op, tiles, gradients);
    if (tiles.D == 256) in_tiles<256>(exec, op, tiles, gradients);
    return true;
  }
  return false;
}

template <class Real>
void by_blocks(const Exec& exec, const CrossEntropy<Real>& op, bool gradients) {
  const std::int64_t rows = op.rows(), block = op.logits.value.dim(0);
  const unsigned R = static_cast<unsigned>(op.x.value.R);
  const bool is_short = op.V() <= kShortRow;
  const auto kernel = is_short                     ? entropy_rows<Real, RowTeam::warp, true>
                      : op.V() <= kHeld * kThreads ? entropy_rows<Real, RowTeam::block, true>
                                                   : entropy_rows<Real, RowTeam::block, false>;
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    const Linear<Real> product = op.product(begin, count);
    forward_cuda(exec, product);
    const unsigned blocks = blocks_for(count, is_short ? kThreads / 32 : 1);
    launch(exec, "cross_entropy", kernel, dim3(blocks, R), kThreads, 0, op, begin, count, gradients);
    if (gradients) backward_cuda(exec, product);
  }
}

template <class Real>
void pass(const Exec& exec, const CrossEntropy<Real>& op, bool gradients) {
  const unsigned R = static_cast<unsigned>(op.x.value.R);
  if (op.rows() == 0 || R == 0) return;
  launch_early(exec, "cross_entropy (used slots)", used_share<Real>, dim3(R), kSumThreads, 0, op);
  if (!done_in_tiles(exec, op, gradients)) by_blocks(exec, op, gradients);
  launch_early(exec, "cross_entropy (mean)", mean_loss<Real>, dim3(R), kSumThreads, 0, op);
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const CrossEntropy<Real>& op) {
  pass(exec, op, op.with_gradients);
}

template <class Real>
void backward_cuda(const Exec& exec, const CrossEntropy<Real>& op) {
  if (!op.with_gradients) pass(exec, op, true);
}

CROSSTALK_INSTANTIATE(cuda, CrossEntropy)

}  // namespace crosstalk
