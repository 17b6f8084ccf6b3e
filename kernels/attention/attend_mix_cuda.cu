// Attention that reads values at once: tiles on the tensor cores, for floats in heads of up to 128, or in bf16 256.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend_mix_tiles.cuh"
#include "kernels/attention/attend_mix_whole.cuh"
#include "kernels/base/device/reduce.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kHeadThreads = 1024, kRowThreads = 256;
/// Factor of natural logarithms: tiles count to base 2.
constexpr double kUnit = static_cast<double>(kLog2E);

dim3 grid_of(const AttendMix<float>& op, int rows, int per_block, bool whole) {
  const std::int64_t heads = std::int64_t{op.B()} * op.H();
  return dim3(whole ? static_cast<unsigned>(heads) * blocks_for(rows, per_block)
                    : blocks_for(heads * rows, per_block),
              static_cast<unsigned>(op.k.value.R));
}

/// Phi of one sequence and head, by a warp: sums in double, kept in two parts.
__global__ void __launch_bounds__(32) make_phases(const __grid_constant__ AttendMix<float> op, double unit) {
  constexpr double kNothing = -1e6;  // e to this is 0; -inf has no differences
  const int bh = static_cast<int>(blockIdx.x), h = bh % op.H(), r = blockIdx.y, T = op.T();
  const int lane = threadIdx.x;
  const HeadRows<float> g(op.log_decay.value, r, bh / op.H(), h, T, op.H(), 1);
  const double slope = op.slope ? static_cast<double>(op.slope.value.at(r)[h]) : 0;
  float* out = op.phase.value.at(r) + 2 * std::int64_t{bh} * T;
  double carry = 0;
  for (int base = 0; base < T; base += 32) {
    const int n = base + lane;
    double sum = g && n < T ? static_cast<double>(*g(n)) : 0;
    if (sum < kNothing) sum = kNothing;
    sum = warp_scan(sum);
    const double phase = unit * (carry + sum - slope * n);
    if (n < T) out[2 * n] = static_cast<float>(phase);
    if (n < T) out[2 * n + 1] = static_cast<float>(phase - static_cast<double>(static_cast<float>(phase)));
    carry += __shfl_sync(kFullWarp, sum, 31);
  }
}

/// D of every row, half a warp a row.
template <class Number>
__global__ void __launch_bounds__(kRowThreads) row_products(const __grid_constant__ AttendMix<float> op) {
  constexpr int kLanes = 16;
  const std::int64_t rows = std::int64_t{op.B()} * op.H() * op.Q();
  const std::int64_t row = std::int64_t{blockIdx.x} * (kRowThreads / kLanes) + threadIdx.x / kLanes;
  const int r = blockIdx.y, lane = CT_THREAD % kLanes, V = op.V();
  float D = 0;
  if (row < rows && op.normalised) {
    const int bh = static_cast<int>(row / op.Q()), i = static_cast<int>(row % op.Q());
    const auto o = rows_of<Number>(op, op.o.value, r, bh), d_o = rows_of<Number>(op, op.o.gradient, r, bh);
    for (int c = kMoved<Number> * lane; c < V; c += kMoved<Number> * kLanes) {
      if constexpr (std::is_same_v<Number, float>) {
        const bool aligned = V % 4 == 0 && is_aligned16(o(i)) && is_aligned16(d_o(i));
        Four<float> x, y;
        load4(o(i) + c, V - c, aligned, x.v), load4(d_o(i) + c, V - c, aligned, y.v);
        D += whole_dot(x, y);
      } else {
        D += whole_dot(whole_fetch(o, i, i + 1, c, V), whole_fetch(d_o, i, i + 1, c, V));
      }
    }
  }
  CT_UNROLL(int offset = kLanes / 2; offset > 0; offset /= 2) D += __shfl_xor_sync(kFullWarp, D, offset);
  if (row < rows && lane == 0) op.d_rows.value.at(r)[2 * row] = D;
}

/// One warp: d_g_n = sum_{own_i >= n} rho_i - sum_{j >= n} c_j, of sums of d over rows (rho) and columns (c).
__global__ void __launch_bounds__(32) decay_gradients(const __grid_constant__ AttendMix<float> op) {
  const int bh = static_cast<int>(blockIdx.x), b = bh / op.H(), r = blockIdx.y, T = op.T(), Q = op.Q();
  const int lane = threadIdx.x;
  const float* rows = op.d_rows.value.at(r) + 2 * std::int64_t{bh} * Q;
  const float* columns = op.d_columns.value.at(r) + std::int64_t{bh} * T;
  const HeadRows<float> out(op.log_decay.gradient, r, b, bh % op.H(), T, op.H(), 1);
  double carry = 0;
  for (int base = T - 1; base >= 0; base -= 32) {
    const int n = base - lane;
    double sum = 0;
    if (n >= 0) {
      sum = -static_cast<double>(columns[n]);
      if (op.position) {
        for (int i = 0; i < Q; ++i)
          if (seen_tokens(op, r, b, i).own == n) sum += static_cast<double>(rows[2 * i + 1]);
      } else if (n + op.before < Q) {
        sum += static_cast<double>(rows[2 * (n + op.before) + 1]);
      }
    }
    sum = warp_scan(sum);
    if (n >= 0) put(op.log_decay.write, out(n), static_cast<float>(carry + sum));
    carry += __shfl_sync(kFullWarp, sum, 31);
  }
}

/// d_slope = sum_j j c_j - sum_i own_i rho_i and d_sink = - sum_i D_i e^{sink - L_i}, a block a head.
__global__ void __launch_bounds__(kHeadThreads)
    head_gradients(const __grid_constant__ AttendMix<float> op, double unit) {
  const int h = blockIdx.x, r = blockIdx.y, B = op.B(), H = op.H(), T = op.T(), Q = op.Q();
  double distances = 0, sunk = 0;
  for (int bi = threadIdx.x; bi < B * Q; bi += kHeadThreads) {
    const int b = bi / Q, i = bi % Q;
    const std::int64_t row = (std::int64_t{b} * H + h) * Q + i;
    const float* kept = op.d_rows.value.at(r) + 2 * row;
    if (op.slope.wanted()) distances -= static_cast<double>(kept[1]) * max(seen_tokens(op, r, b, i).own, 0);
    if (op.sink.wanted())
      sunk -= static_cast<double>(kept[0]) * exp(static_cast<double>(op.sink.value.at(r)[h]) -
                                                 static_cast<double>(op.row.value.at(r)[row]) / unit);
  }
  for (int bj = threadIdx.x; bj < B * T && op.slope.wanted(); bj += kHeadThreads)
    distances +=
        static_cast<double>(op.d_columns.value.at(r)[(std::int64_t{bj / T} * H + h) * T + bj % T]) * (bj % T);
  distances = block_sum(distances), sunk = block_sum(sunk);
  if (threadIdx.x != 0) return;
  if (op.slope.wanted()) put(op.slope.write, op.slope.gradient.at(r) + h, static_cast<float>(distances));
  if (op.sink.wanted()) put(op.sink.write, op.sink.gradient.at(r) + h, static_cast<float>(sunk));
}

/// Calls f with the tile type of the op's sizes and precision, and the type of its numbers.
void with_tile(const AttendMix<float>& op, auto&& f) {
  const int D = op.K() > op.V() ? op.K() : op.V();
  const auto with_size = [&](auto precision) {
    constexpr Precision kPrecision = precision();
    if (D <= 32) {
      f(Tile<kPrecision, 32>{}, 0.f);
    } else if (D <= 64) {
      f(Tile<kPrecision, 64>{}, 0.f);
    } else if constexpr (kPrecision != Precision::bf16) {
      f(Tile<kPrecision, 128>{}, 0.f);
    } else {
      const auto with_number = [&](auto tile) { op.is_bf16() ? f(tile, std::uint16_t{}) : f(tile, 0.f); };
      D <= 128 ? with_number(Tile<Precision::bf16, 128, true>{})
               : with_number(Tile<Precision::bf16, 256, true>{});
    }
  };
  with_value<Precision::bf16, Precision::tf32, Precision::full>(op.products, with_size);
}

void launch_tiles(const Exec& exec, const char* name, const AttendMix<float>& op,
                  void (*kernel)(AttendMix<float>), int rows, int bytes) {
  launch(exec, name, kernel, grid_of(op, rows, kTileRows, true), kTileThreads,
         static_cast<std::size_t>(bytes), op);
}

/// True if a block holds a head, and memory is as it wants it.
bool in_whole_heads(const AttendMix<float>& op) {
  bool good = true;
  for (const Tensor<float>& t : {op.x.value, op.k.value, op.v.value, op.o.value, op.o.gradient, op.x.gradient,
                                 op.k.gradient, op.v.gradient})
    good = good &&
           (!t.data || (reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.replica_stride % 4 == 0));
  op.check_writes();
  if (op.is_bf16() && !good)
    throw std::logic_error("[attend_mix] bf16 wants memory at multiples of 16 bytes");
  return good && op.fits_whole();
}

/// Calls f with the kernels' tiles and how whole heads of the op's sizes are cut.
void with_whole_heads(const AttendMix<float>& op, const auto& f) {
  using Narrow = Tile<Precision::bf16, 64>;
  const WholeHead cut = op.whole_head(shared_memory_limit());
  if (cut.columns > 64)
    f(Whole<Tile<Precision::bf16, 128>, 8>{}, cut);
  else if (cut.warps > 4)
    f(Whole<Narrow, 8>{}, cut);
  else
    f(Whole<Narrow, 4>{}, cut);
}

void phases(const Exec& exec, const AttendMix<float>& op) {
  if (op.biased())
    launch(exec, "attend_mix (phases)", make_phases, grid_of(op, 1, 1, true), 32, 0, op, kUnit);
}

void read(const Exec& exec, const AttendMix<float>& op) {
  phases(exec, op);
  if (in_whole_heads(op)) {
    with_whole_heads(op, [&](auto tiles, const WholeHead& cut) {
      using Cut = decltype(tiles);
      const auto run = [&](auto* kernel) {
        launch(exec, "attend_mix", kernel, grid_of(op, 1, 1, true), 32 * cut.warps, cut.read_bytes(), op,
               cut);
      };
      op.is_bf16() ? run(whole_read<Cut, std::uint16_t>) : run(whole_read<Cut, float>);
    });
  } else {
    with_tile(op, [&](auto tile, auto number) {
      launch_tiles(exec, "attend_mix", op, read_tiles<decltype(tile), decltype(number)>, op.Q(),
                   read_bytes<decltype(tile)>());
    });
  }
}

void give_gradients(const Exec& exec, const AttendMix<float>& op) {
  phases(exec, op);
  if (in_whole_heads(op)) {
    with_whole_heads(op, [&](auto tiles, const WholeHead& cut) {
      using Cut = decltype(tiles);
      const auto run = [&](auto* kernel) {
        launch(exec, "attend_mix backward", kernel, grid_of(op, 1, 1, true), 32 * cut.warps,
               cut.gradient_bytes(), op, cut);
      };
      op.is_bf16() ? run(whole_gradient<Cut, std::uint16_t>) : run(whole_gradient<Cut, float>);
    });
  } else {
    with_tile(op, [&](auto tile, auto number) {
      launch(exec, "attend_mix backward (rows)", row_products<decltype(number)>,
             grid_of(op, op.Q(), kRowThreads / 16, false), kRowThreads, 0, op);
      launch_tiles(exec, "attend_mix backward", op, gradient_tiles<decltype(tile), decltype(number)>,
                   std::max(op.Q(), op.T()), gradient_bytes<decltype(tile)>());
    });
  }
  if (op.log_decay.wanted())
    launch(exec, "attend_mix backward (log_decay)", decay_gradients, grid_of(op, 1, 1, true), 32, 0, op);
  if (!op.slope.wanted() && !op.sink.wanted()) return;
  launch(exec, "attend_mix backward (heads)", head_gradients, per_replica(op.H(), op.k.value.R), kHeadThreads,
         0, op, kUnit);
}

/// Floats in heads that tiles hold; Attend and Mix read others.
template <bool kBack, class Real>
void run(const Exec& exec, const AttendMix<Real>& op) {
  if (op.k.value.R == 0 || op.k.value.size() == 0 || op.o.value.size() == 0) return;
  if (!op.fits_tiles())
    throw std::logic_error(
        "[attend_mix] wants floats in heads of up to 128 (products in bf16: 256); run Attend, then Mix");
  if constexpr (std::is_same_v<Real, float>) kBack ? give_gradients(exec, op) : read(exec, op);
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, AttendMix, run<kBack>)

}  // namespace crosstalk
