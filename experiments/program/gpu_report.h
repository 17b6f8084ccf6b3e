// Which kernels a GPU gets, in words, for `crosstalk doctor`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "kernels/base/device/cuda_runtime.h"

namespace crosstalk::program {

/// "compute capability 9.0 with code of its own: products by wgmma, clusters of blocks".
std::string code_text(const Gpu& gpu);

/// What fits so much shared memory a block: "99 KiB of shared memory: attention in whole heads of 64 to 160 tokens, ...".
std::string fused_forms_text(std::size_t shared_memory);

/// Which recurrences the calling thread's GPU walks in chunks.
std::string chunks_text();

}  // namespace crosstalk::program
