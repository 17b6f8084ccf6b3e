// Affine maps of one input: in tiles where they fit, else one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/joined_linear_rows.cuh"
#include "kernels/linear/joined_linear_weights.cuh"
#include "kernels/linear/joined_linear_wide.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// Blocks that walk over the tiles of a replica's rows. Who computes a row does not show in its bits.
unsigned walkers(std::int64_t rows, int R) {
  const unsigned tiles = blocks_for(rows, kJoinedRows), share = blocks_of_a_wave(R);
  return tiles < share ? tiles : share;
}

template <int D>
void forward_in_tiles(const Exec& exec, const JoinedLinear<float>& a, LinearSlabs s) {
  const dim3 grid(walkers(a.x.value.rows(), a.x.value.R), static_cast<unsigned>(a.x.value.R));
  if (a.x.value.is_bf16() && in_row_blocks<D>(s, kWgmmaRows)) {
    const std::size_t bytes = RowBlocks<D>::bytes(s);
    return launch_early(exec, "joined_linear", map_rows<D>, grid, kJoinedThreads, bytes, a, s);
  }
  s.fit_walk(D, shared_memory_limit());
  const std::size_t bytes = joined_bytes<D>(s);
  launch_early(exec, "joined_linear", joined_forward<D>, grid, kJoinedThreads, bytes, a, s);
}

/// Takes number `at` of a piece's sums to the gradient that it belongs to.
CT_DEVICE void put_weight(const JoinedLinear<float>& a, const LinearSlabs& s, int r, int at, float sum) {
  for (int i = 0; i < a.outputs; ++i) {
    if (!a.y[i].gradient.data) continue;
    const int out = a.w[i].value.dim(0), w = at - s.weight_at[i], b = at - s.bias_at[i];
    if (w >= 0 && w < out * s.inputs && a.w[i].wanted()) put(a.w[i].write, a.w[i].gradient.at(r) + w, sum);
    if (b >= 0 && b < out && a.b[i].wanted()) put(a.b[i].write, a.b[i].gradient.at(r) + b, sum);
  }
}

template <int D>
void backward_in_tiles(const Exec& exec, const JoinedLinear<float>& a, const LinearSlabs& whole) {
  const auto R = static_cast<unsigned>(a.x.value.R);
  // Outputs that nobody differentiates have no slabs.
  LinearSlabs s = whole;
  s.count = s.columns = 0;
  bool weights = false, operands = false;
  for (int i = 0; i < whole.count; ++i) {
    LinearSlabs::Slab slab = whole.slab[i];
    if (!a.y[slab.output].gradient.data) continue;
    slab.at = s.columns;
    s.columns += LinearSlabs::up_to(slab.width, 16);
    s.slab[s.count++] = slab;
    operands = operands || is_operand(a, slab);
    weights = weights || a.w[slab.output].wanted() || a.b[slab.output].wanted();
  }
  if (s.count == 0) return;
  if (a.x.wanted()) {
    const dim3 grid(walkers(a.x.value.rows(), a.x.value.R), R);
    const char* const name = "joined_linear backward (x)";
    bool rows = in_row_blocks<D>(s, D);
    for (int i = 0; i < s.count && s.slab[i].at < s.whole_columns(D); ++i)
      rows = rows && a.y[s.slab[i].output].gradient.is_bf16();
    if (rows && !(a.x.value.is_bf16() && a.x.write == Write::add)) {
      const std::size_t bytes = RowBlocks<D>::bytes(s);
      launch_early(exec, name, map_rows_back<D>, grid, kJoinedThreads, bytes, a, s);
    } else {
      s.fit_walk(LinearSlabs::kWidth, shared_memory_limit());
      const std::size_t bytes = joined_bytes<LinearSlabs::kWidth>(s);
      launch_early(exec, name, joined_inputs<D>, grid, kJoinedThreads, bytes, a, s);
    }
  }
  if (!weights) return;
  weights_in_tiles<D>(
      exec, a, s, operands && a.x.value.is_bf16() && s.inputs % 8 == 0,
      [=] __device__(int r, std::int64_t at, float sum) { put_weight(a, s, r, static_cast<int>(at), sum); });
}

void backward_wide(const Exec& exec, const JoinedLinear<float>& a, const LinearSlabs& s) {
  bool weights = false, any = false;
  for (int i = 0; i < a.outputs; ++i) {
    const bool reached = a.y[i].gradient.data;
    any = any || reached, weights = weights || (reached && (a.w[i].wanted() || a.b[i].wanted()));
  }
  if (any && a.x.wanted()) {
    round_weights(exec, a, s);
    launch_wide<WideRole::inputs>(exec, "joined_linear backward (x)", a, s);
  }
  if (!weights) return;
  launch_wide<WideRole::weights>(exec, "joined_linear backward (w)", a, s);
  sum_pieces<float, 32, 16>(
      exec, "joined_linear backward (pieces)", a.x.value.R, s.piece_size, s.pieces, s.piece_size,
      [=] __device__(int r, std::int64_t at) { return a.pieces.value.at(r) + at; },
      [=] __device__(int r, std::int64_t at, float sum) { put_weight(a, s, r, static_cast<int>(at), sum); });
}

/// The form in tiles, none where memory is not as it wants it.
template <class Real>
LinearSlabs slabs_of(const JoinedLinear<Real>& a) {
  const auto aligned = [](const Tensor<Real>& t) {
    return !t.data || (reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.replica_stride % 4 == 0);
  };
  bool good = a.x.value.R > 0 && a.x.value.rows() > 0 && aligned(a.x.value), is_bf16 = a.x.value.is_bf16();
  for (int i = 0; i < a.outputs; ++i) {
    good = good && aligned(a.w[i].value);
    is_bf16 = is_bf16 || a.y[i].value.is_bf16() || a.y[i].gradient.is_bf16();
  }
  LinearSlabs s = good ? a.slabs() : LinearSlabs{};
  if (s.is_wide() && !a.operands) s = {};
  if (is_bf16 && s.count == 0) throw std::logic_error("[joined_linear] the form in tiles alone takes bf16");
  return s;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const JoinedLinear<Real>& a) {
  if constexpr (std::is_same_v<Real, float>) {
    const LinearSlabs s = slabs_of(a);
    if (s.count > 0 && s.is_wide()) {
      round_weights(exec, a, s);
      return launch_wide<WideRole::forward>(exec, "joined_linear", a, s);
    }
    if (s.count > 0)
      return s.inputs <= 64 ? forward_in_tiles<64>(exec, a, s) : forward_in_tiles<128>(exec, a, s);
  }
  for (int i = 0; i < a.outputs; ++i) forward_cuda(exec, a.part(i));
}

template <class Real>
void backward_cuda(const Exec& exec, const JoinedLinear<Real>& a) {
  bool done = false;
  if constexpr (std::is_same_v<Real, float>) {
    const LinearSlabs s = slabs_of(a);
    if ((done = s.count > 0 && a.pieces))
      s.is_wide()      ? backward_wide(exec, a, s)
      : s.inputs <= 64 ? backward_in_tiles<64>(exec, a, s)
                       : backward_in_tiles<128>(exec, a, s);
  }
  if (!done) a.backward_in_order([&](const Linear<Real>& one) { backward_cuda(exec, one); });
  // An output without a gradient adds nothing.
  for (int i = 0; i < a.outputs; ++i) {
    if (a.y[i].gradient.data) continue;
    for (const In<Real>* field : {&a.w[i], &a.b[i]}) {
      if (field->write != Write::overwrite) continue;
      const Tensor<Real>& t = field->gradient;
      cudaMemset2DAsync(t.data, static_cast<std::size_t>(t.replica_stride) * sizeof(Real), 0,
                        static_cast<std::size_t>(t.size()) * sizeof(Real), static_cast<std::size_t>(t.R),
                        stream_of(exec));
      check_launch("joined_linear backward (zeros)");
    }
  }
}

CROSSTALK_INSTANTIATE(cuda, JoinedLinear)

}  // namespace crosstalk
