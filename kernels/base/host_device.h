// CT_HD marks functions that the CPU and the CUDA compiler both compile: the same arithmetic on both.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#if defined(__CUDACC__)
#define CT_HD __host__ __device__
#else
#define CT_HD
#endif
