// Hopper's asynchronous tensor core instruction (wgmma; sm_90a only) on bf16: 64 rows in the registers of
// four warps, and a tile of 64 rows of operands in shared memory as the other factor, by rows or turned.
//
// A tile lies in pieces of 8 columns: [columns / 8][64 rows][8], pieces kWgmmaLine apart. Eight rows of a
// piece are one core matrix of 128 bytes, whether the product runs along the columns (logits) or along the
// rows (turned). Sums lie as mma.sync leaves those of 16 rows a warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/matmul/gemm_wgmma.cuh"

namespace crosstalk::device {

constexpr int kWgmmaRows = 64, kWgmmaLine = kWgmmaRows * 8 + 8;  ///< numbers; 16 bytes keep banks apart

/// 16 columns from `at` of all rows, to sum over: core matrices lie 128 bytes apart in rows, a line else.
template <int kLine = kWgmmaLine>
CT_DEVICE std::uint64_t wgmma_columns(const std::uint16_t* at) {
  return wgmma_operand<kLine * 2, 128>(at);
}
/// 16 rows from `at` of all columns, to be summed over.
template <int kLine = kWgmmaLine>
CT_DEVICE std::uint64_t wgmma_rows(const std::uint16_t* at) {
  return wgmma_operand<128, kLine * 2>(at);
}

/// The same of what lies so many numbers behind: addresses fill the lower half alone.
CT_DEVICE std::uint64_t wgmma_ahead(std::uint64_t operand, int numbers) {
  const auto low = static_cast<unsigned>(operand) + static_cast<unsigned>(numbers * 2 / 16);
  return (operand >> 32 << 32) | low;
}

/// d (+)= a b: 16 numbers of a sum, 32 to 128 columns of d. kTurned: of wgmma_rows(), else wgmma_columns().
template <bool kTurned>
CT_DEVICE void wgmma_bf16([[maybe_unused]] float (&d)[4][4], [[maybe_unused]] const unsigned (&a)[4],
                          [[maybe_unused]] std::uint64_t b, [[maybe_unused]] bool add) {
#if CROSSTALK_WGMMA
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" CROSSTALK_TO15
      "}, {%16, %17, %18, %19}, %20, p, 1, 1, %22;}"
      : CROSSTALK_SUMS16(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(kTurned ? 1 : 0));
#endif
}
template <bool kTurned>
CT_DEVICE void wgmma_bf16([[maybe_unused]] float (&d)[8][4], [[maybe_unused]] const unsigned (&a)[4],
                          [[maybe_unused]] std::uint64_t b, [[maybe_unused]] bool add) {
#if CROSSTALK_WGMMA
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" CROSSTALK_TO31
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;}"
      : CROSSTALK_SUMS32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(kTurned ? 1 : 0));
#endif
}
template <bool kTurned>
CT_DEVICE void wgmma_bf16([[maybe_unused]] float (&d)[16][4], [[maybe_unused]] const unsigned (&a)[4],
                          [[maybe_unused]] std::uint64_t b, [[maybe_unused]] bool add) {
#if CROSSTALK_WGMMA
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" CROSSTALK_TO31
      ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
      "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;}"
      : CROSSTALK_SUMS32(0), CROSSTALK_SUMS32(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)), "n"(kTurned ? 1 : 0));
#endif
}

/// The same of two operands in shared memory, both by columns: 32 or 64 columns of d.
CT_DEVICE void wgmma_bf16([[maybe_unused]] float (&d)[4][4], [[maybe_unused]] std::uint64_t a,
                          [[maybe_unused]] std::uint64_t b, [[maybe_unused]] bool add) {
#if CROSSTALK_WGMMA
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" CROSSTALK_TO15 "}, %16, %17, p, 1, 1, 0, 0;}"
      : CROSSTALK_SUMS16(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
CT_DEVICE void wgmma_bf16([[maybe_unused]] float (&d)[8][4], [[maybe_unused]] std::uint64_t a,
                          [[maybe_unused]] std::uint64_t b, [[maybe_unused]] bool add) {
#if CROSSTALK_WGMMA
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" CROSSTALK_TO31 "}, %32, %33, p, 1, 1, 0, 0;}"
      : CROSSTALK_SUMS32(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}

/// Before products that add to d, which is made before they begin.
template <int kCount>
CT_DEVICE void wgmma_begin_with([[maybe_unused]] float (&d)[kCount][4]) {
#if CROSSTALK_WGMMA
  CT_FOR2(n, kCount, e, 4) asm volatile("" : "+f"(d[n][e]));
#endif
  wgmma_begin();
}

/// d += a b, 16 numbers of a sum from k on; b: rows of a block from `rows`, of which columns are summed
/// over, or (kTurned) rows. Where there is no wgmma, by mma.
template <bool kTurned, int kCount>
CT_DEVICE void multiply_block(float (&d)[kCount][4], const unsigned (&a)[4], const std::uint16_t* rows,
                              int k) {
#if CROSSTALK_WGMMA
  wgmma_bf16<kTurned>(d, a, kTurned ? wgmma_rows(rows + k * 8) : wgmma_columns(rows + k / 8 * kWgmmaLine),
                      true);
#else
  const int lane = threadIdx.x % 32;
  CT_UNROLL(int n = 0; n < kCount; n += 2) {
    unsigned b[4];
    if (kTurned) {
      load_matrices<true>(b, rows + (n + lane / 16) * kWgmmaLine + (k + lane % 16) * 8);
    } else {
      load_matrices<false>(
          b, rows + (k / 8 + lane / 8 % 2) * kWgmmaLine + (n * 8 + lane % 8 + lane / 16 * 8) * 8);
    }
    mma_bf16(d[n], d[n + 1], a, b);
  }
#endif
}

}  // namespace crosstalk::device
