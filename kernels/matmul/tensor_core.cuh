// A warp's product of 32 rows and 32 columns, 8 entries of K at a time, on the tensor cores.
//
// fp32: each operand is split in two TF32 halves, x = h + l, and h h' + h l' + l h' summed in fp32; what is
// left out is about 2^-22 of a product (Ootomo and Yokota 2022, arXiv 2203.03341). With three products for
// one, this is still faster than the CUDA cores' multiply-adds. tf32, bf16: operands rounded once, one
// product. As the tensor cores cut instead of rounding when they add, long sums should be made of several.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/precision.h"

namespace crosstalk::device {

// The tensor cores read the first 11 bits of a float and ignore the others. So half of the last one is added
// to round. (cvt.rna.tf32 does that too, in five instructions. A NaN whose bits run over
// here stays one in the low half; Precision::tf32, which has none, takes it as it is.)
constexpr unsigned kHalf = 0x1000, kHigh = 0xffffe000;

/// x = high + low.
CT_DEVICE void split(float x, unsigned& high, unsigned& low) {
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));  // one instruction there
#else
  high = (__float_as_uint(x) + kHalf) & kHigh;
#endif
  low = __float_as_uint(x - __uint_as_float(high));
}

CT_DEVICE unsigned tf32_of(float x) { return __float_as_uint(x) + (x - x == 0 ? kHalf : 0); }

CT_DEVICE unsigned bf16_pair(float low, float high) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

/// The factor in place of x, as the tensor cores take it: its two halves, or x rounded.
template <Precision kPrecision>
CT_DEVICE void operand_of(float x, unsigned& high, unsigned& low) {
  if constexpr (kPrecision == Precision::full)
    split(x, high, low);
  else if constexpr (kPrecision == Precision::tf32)
    high = tf32_of(x);
  else
    high = bf16_pair(0, x) & 0xffff0000;  // a number of 8 bits is one of 11 as well
}

CT_DEVICE void mma_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same of numbers in two halves each: all products but low times low.
CT_DEVICE void mma_halves(float (&d)[4], const unsigned (&high)[4], const unsigned (&low)[4],
                          const unsigned (&b_high)[2], const unsigned (&b_low)[2]) {
  mma_tf32(d, low, b_high[0], b_high[1]);
  mma_tf32(d, high, b_low[0], b_low[1]);
  mma_tf32(d, high, b_high[0], b_high[1]);
}

CT_DEVICE void mma_bf16(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/// The same, 16 k at once.
CT_DEVICE void mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same of two sums, with what load_matrices() brings at once of 16 columns.
CT_DEVICE void mma_bf16(float (&c)[4], float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[4]) {
  mma_bf16(c, a, b[0], b[1]);
  mma_bf16(d, a, b[2], b[3]);
}

/// Layout of a factor in shared memory: bf16 as two bytes; tf32 (rounded) and full precision as floats.
template <Precision kPrecision>
struct NumberFormat {
  using Type = float;
  static constexpr int kPad = 4, kStep = 8;  ///< of a row; k of one instruction
  CT_DEVICE static float of(float x) {
    return kPrecision == Precision::tf32 ? __uint_as_float(tf32_of(x) & kHigh) : x;
  }
  CT_DEVICE static float value(float x) { return x; }
  CT_DEVICE static void put1(float* to, float x) { *to = of(x); }
  CT_DEVICE static void put2(float* to, float x, float y) {
    *reinterpret_cast<float2*>(to) = make_float2(of(x), of(y));
  }
  CT_DEVICE static void put4(float* to, const float (&x)[4]) {
    *reinterpret_cast<float4*>(to) = make_float4(of(x[0]), of(x[1]), of(x[2]), of(x[3]));
  }
};
template <>
struct NumberFormat<Precision::bf16> {
  using Type = std::uint16_t;
  static constexpr int kPad = 8, kStep = 16;
  CT_DEVICE static float value(std::uint16_t x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
  CT_DEVICE static void put1(std::uint16_t* to, float x) {
    *to = static_cast<std::uint16_t>(bf16_pair(x, 0));
  }
  CT_DEVICE static void put2(std::uint16_t* to, float x, float y) {
    *reinterpret_cast<unsigned*>(to) = bf16_pair(x, y);
  }
  CT_DEVICE static void put4(std::uint16_t* to, const float (&x)[4]) {
    *reinterpret_cast<uint2*>(to) = make_uint2(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]));
  }
};

/// Four 8 x 8 matrices of 16-bit numbers from shared memory, as mma takes them. Lane l names row l % 8 of
/// matrix l / 8. kTurned: their transposes.
template <bool kTurned>
CT_DEVICE void load_matrices(unsigned (&x)[4], const std::uint16_t* row) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTurned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at));
  }
}

/// Adds the products of 32 rows and 32 columns at 8 k: x[i][j] is row (column) i of this lane at its k j.
template <Precision kPrecision>
CT_DEVICE void multiply(const float (&a)[4][2], const float (&b)[4][2], float (&sums)[2][4][4]) {
  if constexpr (kPrecision == Precision::bf16) {
    unsigned x[4];
    CT_FOR(i, 4) x[i] = bf16_pair(a[i][0], a[i][1]);
    CT_FOR(n, 4) {
      const unsigned y = bf16_pair(b[n][0], b[n][1]);
      CT_FOR(m, 2) mma_bf16(sums[m][n], x[2 * m], x[2 * m + 1], y);
    }
  } else {
    unsigned high[2][4], low[2][4];
    CT_FOR2(m, 2, i, 4) operand_of<kPrecision>(a[2 * m + i % 2][i / 2], high[m][i], low[m][i]);
    // Two columns at a time: four sums that do not wait for each other.
    CT_UNROLL(int n0 = 0; n0 < 4; n0 += 2) {
      unsigned y[2][2], z[2][2];
      CT_FOR(i, 4) operand_of<kPrecision>(b[n0 + i / 2][i % 2], y[i / 2][i % 2], z[i / 2][i % 2]);
      if (kPrecision == Precision::full) {
        CT_FOR(i, 4) mma_tf32(sums[i % 2][n0 + i / 2], low[i % 2], y[i / 2][0], y[i / 2][1]);
        CT_FOR(i, 4) mma_tf32(sums[i % 2][n0 + i / 2], high[i % 2], z[i / 2][0], z[i / 2][1]);
      }
      CT_FOR(i, 4) mma_tf32(sums[i % 2][n0 + i / 2], high[i % 2], y[i / 2][0], y[i / 2][1]);
    }
  }
}

}  // namespace crosstalk::device
