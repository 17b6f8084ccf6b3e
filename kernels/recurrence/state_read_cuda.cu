// The recurrence engine on CUDA: the chunk kernels where they cover an op, else token after token: any shape,
// mode and precision.
//
// Token after token, forward walks rows of the state and keeps what every erase finds. Backward walks the
// gradient of the state by rows and keeps what it says of every write. With both known, columns are
// independent too, and each gradient is a sum in one thread group or warp, in an order that follows from the
// shape of a replica alone.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "kernels/recurrence/state_chunk.cuh"
#include "kernels/recurrence/state_columns.cuh"
#include "kernels/recurrence/state_rows.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 128;
constexpr std::size_t kStageBytes = 40 * 1024;  // of several blocks on a multiprocessor

template <class Real>
dim3 grid(const StateRead<Real>& op, int tiles) {
  return {static_cast<unsigned>(op.B()) * static_cast<unsigned>(op.H()) * static_cast<unsigned>(tiles),
          static_cast<unsigned>(op.k.value.R)};
}

/// Threads that n groups need, whole warps.
int threads_for(int n, int lanes) { return std::min(kThreads, (n * lanes + 31) / 32 * 32); }

/// A walk by rows, and its launch: kernel by registers, or by shared memory where a row is long.
template <class Real, class Short, class Long>
void walk_rows(const Exec& exec, const StateRead<Real>& op, bool values, Short short_rows, Long long_rows) {
  RowWalk walk;
  walk.cut = cut_over_lanes(op.K(), kRowEntries<Real>);
  const bool in_registers = walk.cut.entries <= kRowEntries<Real>;
  const int threads = in_registers ? threads_for(op.V(), walk.cut.lanes) : 32;
  walk.rows = threads / walk.cut.lanes;
  walk.tiles = (op.V() + walk.rows - 1) / walk.rows;
  walk.chunk = op.chunk();
  walk.chunks = op.chunks();
  std::size_t bytes = 0;
  for (walk.steps = std::max(1, std::min(16, op.M())); walk.steps >= 1; walk.steps /= 2) {
    const std::int64_t row = in_registers ? 0 : std::int64_t{threads} * walk.cut.entries;
    bytes = static_cast<std::size_t>(RowStage<Real>(op, walk, nullptr, values).size + row) * sizeof(Real);
    if (bytes <= kStageBytes || walk.steps == 1) break;
  }
  if (bytes > shared_memory_limit())
    refuse_shape("state_read", "key channels", op.K(),
                 static_cast<int>(shared_memory_limit() / (5 * sizeof(Real))));
  const auto kernel = in_registers ? short_rows : long_rows;
  allow_shared_memory(kernel, bytes);
  kernel<<<grid(op, walk.tiles), threads, bytes, stream_of(exec)>>>(op, walk);
  check_launch("state_read");
}

/// A walk by columns, and its launch.
template <class Real, class Kernel>
void walk_columns(const Exec& exec, const StateRead<Real>& op, bool backward, Kernel kernel) {
  ColumnWalk walk;
  walk.cut = cut_over_lanes(std::min(op.V(), 32 * kColumnEntries<Real>), kColumnEntries<Real>);
  walk.chunk = op.chunk();
  walk.chunks = op.chunks();
  walk.steps = std::max(1, static_cast<int>(std::ceil(std::sqrt(static_cast<double>(walk.chunk)))));
  walk.pieces = (walk.chunk + walk.steps - 1) / walk.steps;
  std::size_t bytes = 0;
  int threads = threads_for(op.K(), walk.cut.lanes);
  for (;; threads -= 32) {
    walk.columns = threads / walk.cut.lanes;
    bytes =
        static_cast<std::size_t>(ColumnStage<Real>(op, walk, nullptr, threads, backward).size) * sizeof(Real);
    if (bytes <= shared_memory_limit() || threads == 32) break;
  }
  if (bytes > shared_memory_limit()) refuse_shape("state_read", "writes of a token", op.writes, 1000);
  walk.tiles = (op.K() + walk.columns - 1) / walk.columns;
  allow_shared_memory(kernel, bytes);
  kernel<<<grid(op, walk.tiles), threads, bytes, stream_of(exec)>>>(op, walk);
  check_launch("state_read backward");
}

/// The order in which these kernels write gradients differs from that of fields(). Where one variable stands
/// in several of them, the one that is written first here takes over the write mode of the first field.
template <class Real>
StateRead<Real> in_order_of_kernels(StateRead<Real> op) {
  const std::array<In<Real>*, 8> fields{&op.q,         &op.k,          &op.v,           &op.write_gain,
                                        &op.log_decay, &op.erase_read, &op.erase_write, &op.erase_gain};
  const bool scalar = op.log_decay && op.log_decay.value.dim(3) == 1;
  const std::array<In<Real>*, 8> written =
      scalar ? std::array<In<Real>*, 8>{&op.q, &op.k,          &op.erase_read, &op.erase_write,
                                        &op.v, &op.write_gain, &op.log_decay,  &op.erase_gain}
             : std::array<In<Real>*, 8>{&op.q,           &op.k, &op.log_decay,  &op.erase_read,
                                        &op.erase_write, &op.v, &op.write_gain, &op.erase_gain};
  const auto first_of = [](const std::array<In<Real>*, 8>& order, const Real* gradient) {
    for (In<Real>* field : order) {
      if (field->wanted() && field->gradient.data == gradient) return field;
    }
    return static_cast<In<Real>*>(nullptr);
  };
  for (In<Real>* field : fields) {
    if (!field->wanted()) continue;
    In<Real>* first = first_of(fields, field->gradient.data);
    if (first != field) continue;  // once for each variable
    In<Real>* here = first_of(written, field->gradient.data);
    if (here != first) std::swap(here->write, first->write);
  }
  return op;
}

/// What is kept has the formats that plan() gives it.
template <class Real>
void check_formats(const StateRead<Real>& op) {
  const KeptFormats kept = chunk_read_keeps(op);
  for (const auto& [field, format] :
       {std::pair{&op.states, kept.states}, {&op.inverse, kept.states}, {&op.solved, kept.solved}}) {
    if (*field && field->value.format != format)
      throw std::logic_error(
          "[state_read] states, inverse and solved are bf16 where plan() says so, and only there");
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const StateRead<Real>& op) {
  if (op.B() == 0 || op.k.value.R == 0) return;
  check_formats(op);
  if (chunk_read_covers(op)) return chunk_read_forward(exec, op);
  walk_rows(exec, op, true, state_rows_forward<Real, kRowEntries<Real>>, state_rows_forward<Real, 0>);
}

template <class Real>
void backward_cuda(const Exec& exec, const StateRead<Real>& op) {
  if (op.B() == 0 || op.k.value.R == 0) return;
  check_formats(op);
  if (chunk_read_covers(op)) return chunk_read_backward(exec, op);
  const StateRead<Real> a = in_order_of_kernels(op);
  walk_rows(exec, a, false, state_rows_backward<Real, kRowEntries<Real>>, state_rows_backward<Real, 0>);
  if (a.q.wanted()) walk_columns(exec, a, false, state_columns_queries<Real, kColumnEntries<Real>>);
  if (a.k.wanted() || a.log_decay.wanted() || a.erase_read.wanted() || a.erase_write.wanted())
    walk_columns(exec, a, true, state_columns_backward<Real, kColumnEntries<Real>>);
  if (a.v.wanted() || a.write_gain.wanted() || a.log_decay.wanted() || a.erase_gain.wanted()) {
    const std::int64_t writes = static_cast<std::int64_t>(a.B()) * a.M() * a.H();
    state_values_backward<Real>
        <<<dim3(blocks_for(writes, 4), static_cast<unsigned>(a.k.value.R)), 128, 0, stream_of(exec)>>>(a);
    check_launch("state_read backward");
  }
}

CROSSTALK_INSTANTIATE(cuda, StateRead)

}  // namespace crosstalk
