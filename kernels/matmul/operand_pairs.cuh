// Numbers in bf16 as floats, two or four at a time, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/matmul/tensor_core.cuh"

namespace crosstalk::device {

CT_DEVICE float2 two_of(unsigned pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000));
}
CT_DEVICE Four<float> four_of(const uint2& pairs) {
  return {{__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000),
           __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xffff0000)}};
}
CT_DEVICE uint2 pairs_of(const Four<float>& x) {
  return make_uint2(bf16_pair(x.v[0], x.v[1]), bf16_pair(x.v[2], x.v[3]));
}

}  // namespace crosstalk::device
