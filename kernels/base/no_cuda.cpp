// Stand-ins of every CUDA function in a build without CUDA: they say so. The one list that a new op joins.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/ops/all.h"

namespace crosstalk {
namespace {
[[noreturn]] void none() { throw DeviceError("this crosstalk was built without CUDA; use --device cpu"); }
}  // namespace

bool built_with_cuda() { return false; }
int cuda_device_count() { return 0; }
void* cuda_allocate(std::size_t) { none(); }
void cuda_free(void*) {}
void cuda_fill_zero(void*, std::size_t) { none(); }
void cuda_fill_byte(void*, unsigned char, std::size_t) { none(); }
void cuda_copy_to_device(void*, const void*, std::size_t) { none(); }
void cuda_copy_to_host(void*, const void*, std::size_t) { none(); }

#define CROSSTALK_NO_CUDA(Args)                            \
  template <class Real>                                    \
  void run_cuda(const Exec&, const Args<Real>&) {          \
    none();                                                \
  }                                                        \
  template void run_cuda(const Exec&, const Args<float>&); \
  template void run_cuda(const Exec&, const Args<double>&);
CROSSTALK_OPS(CROSSTALK_NO_CUDA)

}  // namespace crosstalk
