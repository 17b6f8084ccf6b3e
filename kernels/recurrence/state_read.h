// The recurrence engine: a matrix state that fades, erases and writes, read by queries. Values are dense.
//
//   S' = S_{t-1} Diag(e^{g_t})                                           g_t <= 0, one or one a key channel
//   S_t = S' - e_t (S'' x_t) y_t^T + w_t v_t k_t^T                       S'' = S' (decayed) or S_{t-1}
//   o = S_n q after n tokens
//
// with S in R^{V x K}, a state of its own for every replica, sequence and head. A token may make several
// writes (micro-steps n = 1 .. N, each with its own k, v, w, x, y, e); its decay comes before the first of
// them, and reads see all or none. Members: linear attention, RetNet, Mamba-2, GLA, RWKV-6 and -7, DeltaNet,
// Gated DeltaNet, Comba, KDA, DeltaProduct, ... Every form computes the same function; which one runs is
// `form`, chosen by the graph from shapes alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"
#include "kernels/base/precision.h"
#include "kernels/law/law_walk.h"

namespace crosstalk {

/// Part of the state that a write takes out before it adds.
enum class Erase : int {
  none,   ///< nothing
  delta,  ///< x = y = k, e = w: the delta rule
  tied,   ///< y = k; x and e are given
  free,   ///< x, y and e are given
};

/// How the recurrence is walked.
enum class StateForm : int {
  recurrent,  ///< token after token: the specification (state_read_law.h)
  chunkwise,  ///< on CUDA, where state_chunk.cuh covers it: chunks by products of matrices; else as recurrent
};

/// Tokens (micro-steps) of a chunk, by the sizes of the state and the operands' format alone: as many as keep
/// a multiprocessor's shared memory and tensor cores busy.
constexpr int state_chunk(int K, int V, Precision products) {
  const int size = K > V ? K : V;
  return size <= 32 ? 32 : size <= 64 || products == Precision::bf16 ? 64 : 32;
}

template <class Real>
struct StateRead;

namespace device {
/// True if the fast kernels of the chunkwise form do this on the calling thread's GPU: shapes, variants and
/// its shared memory decide, the same forward and backward. Other forms go token by token (state_chunk.cuh).
template <class Real>
bool chunk_read_covers(const StateRead<Real>& op);
/// Tensors that forward on that GPU keeps for backward: states and inverses, and what is solved, as operands in bf16
/// where its kernels have them as such.
struct KeptFormats {
  Format states = Format::native, solved = Format::native;
};
template <class Real>
KeptFormats chunk_read_keeps(const StateRead<Real>& op);
}  // namespace device

/// M = T N micro-steps in the order of tokens. A variable may stand in several fields: the first of them in
/// the order of fields() overwrites its gradient, the later ones add.
template <class Real>
struct StateRead {
  StateForm form = StateForm::recurrent;
  Erase erase = Erase::none;
  int writes = 1;       ///< N
  bool decayed = true;  ///< the erase of a token's first micro-step looks into S' (else S_{t-1})
  bool before = false;  ///< without positions: query t sees the tokens before t (else t itself too)
  Precision products =
      Precision::full;          ///< of the chunkwise form's products; states and sums are Real always
  Device device = Device::cpu;  ///< for whose kernels plan() chooses the formats of what is kept
  const FusedForm<StateRead>* fused = nullptr;  ///< what plan() has chosen in place of chunks, or null

  In<Real> q;            ///< [R,B,Q,H,K]
  In<Real> k;            ///< [R,B,M,H,K]
  In<Real> v;            ///< [R,B,M,H,V]
  In<Real> write_gain;   ///< w [R,B,M,H]; absent: 1
  In<Real> log_decay;    ///< g [R,B,T,H,1] or [R,B,T,H,K]; absent: 0
  In<Real> erase_read;   ///< x [R,B,M,H,K]: tied, free
  In<Real> erase_write;  ///< y [R,B,M,H,K]: free
  In<Real> erase_gain;   ///< e [R,B,M,H]: tied, free; absent: 1
  In<Real> start;        ///< S_0 [R,B,H,V,K]; absent: 0
  Ids position;         ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands at token t
  Out<Real> o;          ///< [R,B,Q,H,V]
  Out<Real> end;        ///< S_T [R,B,H,V,K]; wanted where its shape is set before plan()
  Saved<Real> states;   ///< [R,B,H,n,V*K]: the state before each chunk, or each segment of the law's writes
  Saved<Real> solved;   ///< [R,B,M,H,V] of chunks with erase: what is really written (free: taken out)
  Saved<Real> inverse;  ///< [R,B,H,chunks,rows^2] of chunks with erase: (I + A)^-1
  Work<Real> work;      ///< of the law

  static constexpr const char* kName = "state_read";
  /// True if chunks run on a device, of an op that has its memory.
  bool chunked(Device on) const {
    return form == StateForm::chunkwise && on == Device::cuda && !fused && device::chunk_read_covers(*this);
  }
  const char* form_name(Device on) const { return fused ? fused->name : chunked(on) ? "chunk" : "recurrent"; }
  CROSSTALK_FIELDS(q, k, v, write_gain, log_decay, erase_read, erase_write, erase_gain, start, position, o,
                   end, states, solved, inverse, work)
  CROSSTALK_BF16_FIELDS(q, k, v, erase_read, erase_write, o, states, solved, inverse)
  /// True if its kernels take tokens in bf16: they round them to operands where they read them.
  bool takes_bf16() const {
    return device == Device::cuda && device::chunk_read_keeps(*this).states == Format::bf16;
  }
  /// Values beside a free erase lie with what is kept of it, which is Real.
  bool takes_bf16_values() const { return takes_bf16() && erase != Erase::free; }

  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int M() const { return k.value.dim(1); }
  CT_HD int T() const { return k.value.dim(1) / writes; }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v.value.dim(3); }
  /// Key channels of one walk of the chunkwise kernels: without erases, a state is a sum over blocks of them.
  int key_block() const {
    if (erase != Erase::none || K() <= 128) return K();
    return V() <= 64 ? 64 : 128;
  }
  /// Rows of the matrices of a chunk, and micro-steps: whole tokens. A free erase takes two rows.
  int chunk_rows() const {
    const bool channels = log_decay && log_decay.value.dim(3) > 1;  // whose scores cost more
    return channels ? 32 : state_chunk(key_block(), V(), products);
  }
  int chunk() const {
    const int c = chunk_rows() / (erase == Erase::free ? 2 : 1);
    return c >= writes ? c / writes * writes : writes;
  }
  int chunks() const { return (M() + chunk() - 1) / chunk(); }

  /// Checks the shapes of the inputs and sets those of the others.
  void plan() {
    const PlanCheck want{kName};
    const auto per_write = [&](const In<Real>& f, int columns) {
      return f.value.rank >= 3 && f.value.dim(0) == B() && f.value.dim(1) == M() && f.value.dim(2) == H() &&
             f.value.size() == static_cast<std::int64_t>(B()) * M() * H() * columns;
    };
    want(q && k && v, "q, k and v are needed");
    want(q.value.rank == 4 && k.value.rank == 4 && v.value.rank == 4, "q, k, v have shape [B,T,H,size]");
    want(writes >= 1 && M() % writes == 0,
         "the number of micro-steps is no multiple of the writes of a token");
    want(q.value.dim(0) == B() && q.value.dim(2) == H() && q.value.dim(3) == K(), "q and k do not fit");
    want(per_write(v, V()), "v and k do not fit");
    want(T() >= 1, "there is no token");
    want(position || Q() == T(), "without positions every token is read: Q = T");
    want(!write_gain || per_write(write_gain, 1), "write_gain is [B,M,H]");
    want(!log_decay || (log_decay.value.rank == 4 && log_decay.value.dim(0) == B() &&
                        log_decay.value.dim(1) == T() && log_decay.value.dim(2) == H() &&
                        (log_decay.value.dim(3) == 1 || log_decay.value.dim(3) == K())),
         "log_decay is [B,T,H,1] or [B,T,H,K]");
    const bool reads = erase == Erase::tied || erase == Erase::free;
    want(static_cast<bool>(erase_read) == reads && (!reads || per_write(erase_read, K())),
         "erase_read is [B,M,H,K]");
    want(static_cast<bool>(erase_write) == (erase == Erase::free) &&
             (!erase_write || per_write(erase_write, K())),
         "erase_write is [B,M,H,K]");
    want(!erase_gain || (reads && per_write(erase_gain, 1)), "erase_gain is [B,M,H]");
    const auto one_format = [](const auto& f) { return f.value.format == f.gradient.format; };
    want(one_format(q) && one_format(k) && one_format(v) && one_format(erase_read) &&
             one_format(erase_write) && one_format(o),
         "a tensor and its gradient have one format");
    want(!erase_write || erase_write.value.format == k.value.format, "erase_write and k have one format");
    const bool narrow =
        q.value.is_bf16() || k.value.is_bf16() || erase_read.value.is_bf16() || o.value.is_bf16();
    want(!narrow || takes_bf16(),
         "only chunks of products in bf16 whose rows are not padded take tokens in bf16");
    want(!v.value.is_bf16() || takes_bf16_values(), "these kernels take no values in bf16");
    const int R = k.value.R;
    o.value = shaped<Real>(R, {B(), Q(), H(), V()});
    fused = device == Device::cuda && form == StateForm::chunkwise ? choose_form(*this) : nullptr;
    if (fused) return fused->plan(*this);
    const bool by_chunks = chunked(device);
    states.value =
        shaped<Real>(R, {B(), H(), by_chunks ? chunks() : law::segments(M()), std::int64_t{V()} * K()});
    if (!by_chunks) {
      const std::int64_t numbers = law::work_numbers(M(), std::int64_t{V()} * K(), K() + 3 * V());
      work.value = shaped<Real>(R, {B(), H(), numbers});
      return;
    }
    if (erase != Erase::none) {
      solved.value = shaped<Real>(R, {B(), M(), H(), V()});
      inverse.value =
          shaped<Real>(R, {B(), H(), chunks(), std::max(chunk_rows() * chunk_rows(), chunk() * chunk())});
    }
    const device::KeptFormats kept = device::chunk_read_keeps(*this);
    states.value.format = inverse.value.format = kept.states, solved.value.format = kept.solved;
  }
};
CROSSTALK_OP(StateRead)

}  // namespace crosstalk
