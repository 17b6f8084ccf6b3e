// Tiles of products of floats by Hopper's asynchronous tensor core instruction (wgmma; sm_90a only).
//
// The arithmetic is that of tensor_core.cuh: three products of TF32 halves, or one of rounded operands, steps
// of 32 along K summed there, steps by ordinary additions. With mma.sync it is not the tensor cores that
// limit but the instructions that feed them, since every warp splits what it reads. Here each number of a
// tile of 64 x 64 is split once: A by the thread that multiplies it, in registers; B by a thread that writes
// both halves to shared memory, from where wgmma takes them.
//
// Any order of K will do as long as A and B agree. Lane t of four owns k = 8 t .. + 7 of a step; with
// k = 8 j + q, instruction i of a step takes q = 2 i (its first four k) and 2 i + 1. B's halves lie as core
// matrices of 8 columns x 4 k (j), for q one after the other. Columns are ordered such that a lane's sums are
// four neighbours: n = 16 a + 4 t + 2 b + x stands at 16 a + 8 b + 2 t + x.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/matmul/gemm_product.cuh"
#include "kernels/matmul/tensor_core.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CROSSTALK_WGMMA 1
#else
#define CROSSTALK_WGMMA 0
#endif

namespace crosstalk::device {

/// How these products are cut. Four blocks on a multiprocessor hide each other's waiting, which helps more
/// than a second step on its way.
struct WideTile {
  static constexpr int TM = 64, TN = 64, TK = 32, kThreads = 128;
  static constexpr int kLine = TN * 4 + 4;  ///< floats from q to q; 16 bytes keep banks apart
  static constexpr int kHalf = 8 * kLine;
  static constexpr int kStages = 2, kRaw = (TM + TN) * TK;  ///< steps as they come, one on its way
  static constexpr int kBlocks = 4;
  template <Precision kPrecision>
  static constexpr std::size_t kBytes = (kStages * kRaw + (kPrecision == Precision::full ? 2 : 1) * kHalf) *
                                        sizeof(float);
};

// Sums in asm: four, 16 or 32 of d from d[n] on, and their numbers.
#define CROSSTALK_SUMS4(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define CROSSTALK_SUMS16(n) \
  CROSSTALK_SUMS4(n), CROSSTALK_SUMS4(n + 1), CROSSTALK_SUMS4(n + 2), CROSSTALK_SUMS4(n + 3)
#define CROSSTALK_SUMS32(n) CROSSTALK_SUMS16(n), CROSSTALK_SUMS16(n + 4)
#define CROSSTALK_TO15 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CROSSTALK_TO31 \
  CROSSTALK_TO15 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

/// part (+)= A B for 64 x 64 sums and 8 k.
CT_DEVICE void wgmma_tf32([[maybe_unused]] float (&d)[8][4], [[maybe_unused]] const unsigned (&a)[4],
                          [[maybe_unused]] std::uint64_t b, [[maybe_unused]] bool add) {
#if CROSSTALK_WGMMA
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" CROSSTALK_TO31
      "}, {%32, %33, %34, %35}, %36, p, 1, 1;}"
      : CROSSTALK_SUMS32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}

CT_DEVICE void wgmma_begin() {
#if CROSSTALK_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Makes one group of the products that were queued.
CT_DEVICE void wgmma_commit() {
#if CROSSTALK_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Waits until at most kLeft groups are under way; the sums d of those before are ordinary numbers again.
template <int kLeft, int kCount>
CT_DEVICE void wgmma_wait([[maybe_unused]] float (&d)[kCount][4]) {
#if CROSSTALK_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
  CT_FOR2(n, kCount, e, 4) asm volatile("" : "+f"(d[n][e])::"memory");
#endif
}
/// Waits for the products that were queued.
template <int kCount>
CT_DEVICE void wgmma_end(float (&d)[kCount][4]) {
  wgmma_commit();
  wgmma_wait<0>(d);
}

/// Writes to shared memory by ordinary stores become visible to wgmma, once a barrier follows.
CT_DEVICE void fence_async() {
#if CROSSTALK_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Descriptor of an operand in shared memory for wgmma, whose core matrices of 128 bytes lie so many bytes apart along K and N.
template <int kAlongK, int kAlongN>
CT_DEVICE std::uint64_t wgmma_operand(const void* at) {
  const std::uint64_t address = __cvta_generic_to_shared(at);
  return (address >> 4 & 0x3fff) | std::uint64_t{kAlongK / 16} << 16 | std::uint64_t{kAlongN / 16} << 32;
}

/// Sums of this thread's part of a tile: rows row(0) and row(1), columns 16 a + 4 (lane % 4) .. + 3.
template <class Op>
struct WideSums {
  float sums[32] = {}, side[2] = {};

  __device__ static int row(int x) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    return 16 * warp + (Op::kAlongA ? g + 8 * x : 2 * g + x);
  }
  __device__ static int column(int a) { return 16 * a + 4 * (threadIdx.x % 4); }
  __device__ void four(int a, int x, float (&v)[4]) const {
    CT_FOR(i, 4) v[i] = sums[8 * a + i / 2 * 4 + 2 * x + i % 2];
  }
};

/// A step's piece of A or B as it is in memory: 64 rows (columns of B) and 32 k, in pieces of four neighbours
/// that are swapped about such that neither copies nor reads meet in a bank.
template <bool kAlong, bool kIsA>
struct WidePiece {
  static constexpr int kTurns = 4;
  /// The four neighbours that this thread copies in its i-th turn.
  __device__ static int row(int i) { return kAlong ? threadIdx.x / 8 + 16 * i : threadIdx.x % 16 * 4; }
  __device__ static int k(int i) { return kAlong ? threadIdx.x % 8 * 4 : threadIdx.x / 16 + 8 * i; }
  /// Place of the four numbers that start at this row and k.
  __device__ static int at(int row, int k) {
    if (kAlong) return row * 32 + (k / 4 ^ (kIsA ? row % 8 : row % 2 + row / 4 % 4 * 2)) * 4;
    return k * 64 + (row / 4 ^ (kIsA ? k / 8 * 2 : k % 2 * 4)) * 4;
  }
};

template <class Op, Precision kPrecision>
class WideProduct {
  static constexpr bool kHalves = kPrecision == Precision::full;  ///< else operands are rounded
  using T = WideTile;
  using A = WidePiece<Op::kAlongA, true>;
  using B = WidePiece<Op::kAlongB, false>;
  const Op& op_;
  const int row0_, column0_, t_ = threadIdx.x % 4;
  bool straight_;
  int a_[A::kTurns], b_[B::kTurns];  // what this thread copies, at k = 0

 public:
  __device__ WideProduct(const Op& op, int row0, int column0) : op_(op), row0_(row0), column0_(column0) {
    straight_ = op.aligned_a && op.aligned_b;
    // Whole steps read rows and columns outside as if they were the last ones: their sums are not stored.
    CT_FOR(i, A::kTurns) {
      a_[i] = Op::kAlongA ? min(row0 + A::row(i), op.M - 1) * op.a.ld + A::k(i)
                          : A::k(i) * op.a.ld + min(row0 + A::row(i), (op.M - 1) / 4 * 4);
      b_[i] = Op::kAlongB ? min(column0 + B::row(i), op.N - 1) * op.b.ld + B::k(i)
                          : B::k(i) * op.b.ld + min(column0 + B::row(i), (op.N - 1) / 4 * 4);
    }
  }

  /// Adds up k = begin .. end - 1.
  __device__ void run(int begin, int end, bool wants_side, float* shared, WideSums<Op>& out) const {
    float* const halves = shared + T::kStages * T::kRaw;
    CT_FOR(i, T::kStages - 1) request(begin + i * T::TK, end, shared + i * T::kRaw);
    int stage = 0;
    for (int k = begin; k < end; k += T::TK, stage = stage + 1 < T::kStages ? stage + 1 : 0) {
      copies_wait<T::kStages - 2>();
      __syncthreads();
      // The stage before is free, and so are its halves.
      request(k + (T::kStages - 1) * T::TK, end, shared + (stage > 0 ? stage - 1 : T::kStages - 1) * T::kRaw);
      const float* const raw = shared + stage * T::kRaw;
      float a[2][8];
      read_a(raw, a, wants_side, out.side);
      put_b(raw + T::TM * T::TK, halves);
      unsigned high[4][4], low[4][4];
      CT_FOR2(i, 4, x, 4) {
        operand_of<kPrecision>(a[x % 2][2 * i + x / 2], high[i][x], low[i][x]);
        asm volatile("" : "+r"(high[i][x]));  // made before wgmma begins
        if constexpr (kHalves) asm volatile("" : "+r"(low[i][x]));
      }
      fence_async();
      __syncthreads();
      float part[8][4];
      wgmma_begin();
      CT_FOR(i, 4) {
        constexpr int kLine = T::kLine * sizeof(float);
        const std::uint64_t b_high = wgmma_operand<kLine, 128>(halves + 2 * i * T::kLine),
                            b_low = wgmma_operand<kLine, 128>(halves + T::kHalf + 2 * i * T::kLine);
        if constexpr (kHalves) {
          wgmma_tf32(part, low[i], b_high, i > 0);
          wgmma_tf32(part, high[i], b_low, true);
        }
        wgmma_tf32(part, high[i], b_high, kHalves || i > 0);
      }
      wgmma_end(part);
      CT_FOR(i, 32) out.sums[i] += part[i / 4][i % 4];
    }
    CT_UNROLL(int x = 0; x < 2 && Op::kSide; ++x) {
      out.side[x] += __shfl_xor_sync(kFullWarp, out.side[x], 1);
      out.side[x] += __shfl_xor_sync(kFullWarp, out.side[x], 2);
    }
  }

 private:
  /// Starts the copies of the step at k to shared memory.
  __device__ void request(int k, int end, float* raw) const {
    float* const b = raw + T::TM * T::TK;
    if (straight_ && k + T::TK <= end) {
      const int along_a = Op::kAlongA ? k : k * op_.a.ld, along_b = Op::kAlongB ? k : k * op_.b.ld;
      CT_FOR(i, A::kTurns) copy_async(raw + A::at(A::row(i), A::k(i)), op_.a_ + (a_[i] + along_a));
      CT_FOR(i, B::kTurns) copy_async(b + B::at(B::row(i), B::k(i)), op_.b_ + (b_[i] + along_b));
    } else if (k < end) {
      CT_ROLLED(int i = 0; i < A::kTurns; ++i)
        op_.copy_a(row0_ + A::row(i), k + A::k(i), raw + A::at(A::row(i), A::k(i)));
      CT_ROLLED(int i = 0; i < B::kTurns; ++i)
        op_.copy_b(column0_ + B::row(i), k + B::k(i), b + B::at(B::row(i), B::k(i)));
    }
    copies_commit();
  }

  __device__ static Four<float> four(const float* p) { return *reinterpret_cast<const Four<float>*>(p); }

  /// A's rows row(0) and row(1) at k = 8 t .. + 7.
  __device__ void read_a(const float* raw, float (&a)[2][8], bool wants_side, float (&side)[2]) const {
    if constexpr (Op::kAlongA) {
      CT_FOR(x, 4) {
        const Four<float> v = four(raw + A::at(WideSums<Op>::row(x / 2), 8 * t_ + x % 2 * 4));
        if (Op::kSide && wants_side) Op::add_side(v.v, side + x / 2);
        CT_FOR(j, 4) a[x / 2][x % 2 * 4 + j] = v.v[j];
      }
    } else {
      CT_FOR(q, 8) {
        const int row = WideSums<Op>::row(0);
        const float2 pair = *reinterpret_cast<const float2*>(raw + A::at(row, 8 * t_ + q) + row % 4);
        const float v[2] = {pair.x, pair.y};
        if (Op::kSide && wants_side) Op::add_side(v, side);
        a[0][q] = v[0], a[1][q] = v[1];
      }
    }
  }

  /// Halves of four columns at four k: of one column, or at k = 8 j + q of one q.
  __device__ static void put_b(const float* raw, float* halves) {
    const int thread = threadIdx.x;
    const int n0 = Op::kAlongB ? thread / 32 * 16 + thread % 8 / 2 * 4 + thread / 16 % 2 * 2 + thread % 2
                               : (thread / 8 % 4 * 4 + thread % 4) * 4;
    const int q0 = Op::kAlongB ? thread / 8 % 2 * 4 : thread / 32 * 2 + thread / 4 % 2;
    Four<float> b[4];
    CT_FOR(j, 4) b[j] = four(raw + B::at(n0, 8 * j + q0));
    CT_FOR(i, 4) {
      const int n = Op::kAlongB ? n0 : n0 + i, q = Op::kAlongB ? q0 + i : q0;
      const int place = n / 16 * 16 + n / 2 % 2 * 8 + n / 4 % 4 * 2 + n % 2;
      float high[4], low[4];
      CT_FOR(j, 4) {
        unsigned h, l;
        operand_of<kPrecision>(b[j].v[i], h, l);
        high[j] = __uint_as_float(h);
        if constexpr (kHalves) low[j] = __uint_as_float(l);
      }
      put_all(halves + q * T::kLine + place * 4, high);
      if constexpr (kHalves) put_all(halves + T::kHalf + q * T::kLine + place * 4, low);
    }
  }
};

}  // namespace crosstalk::device
