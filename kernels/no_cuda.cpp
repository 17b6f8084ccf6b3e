// Stand-ins of every CUDA function in a build without CUDA: they say so. The one list that a new op joins.
// SPDX-License-Identifier: Apache-2.0
#include <crosstalk_ops.h>
#include "kernels/base/device/cuda_borrowed.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {
[[noreturn]] void none() { throw DeviceError("this crosstalk was built without CUDA; use --device cpu"); }
}  // namespace

bool built_with_cuda() { return false; }
void cuda_prepare_process() {}
int cuda_device_count() { return 0; }
void cuda_set_device(int) { none(); }
int cuda_current_device() { none(); }
std::string cuda_device_name(int) { none(); }
int cuda_capability(int) { none(); }
Gpu cuda_gpu(int) { none(); }
std::size_t device_shared_memory() { return 0; }
CudaMemory cuda_memory() { none(); }
void* cuda_allocate(std::size_t) { none(); }
void cuda_free(void*) {}
void cuda_give_back() {}
void cuda_fill_zero(void*, std::size_t) { none(); }
void cuda_fill_byte(void*, unsigned char, std::size_t) { none(); }
void cuda_copy_to_device(void*, const void*, std::size_t) { none(); }
void cuda_copy_to_host(void*, const void*, std::size_t) { none(); }
void* cuda_allocate_pinned(std::size_t) { none(); }
void cuda_free_pinned(void*) {}

CudaDeviceGuard::CudaDeviceGuard(int) { none(); }
CudaDeviceGuard::~CudaDeviceGuard() = default;
void cuda_copy_in_order(void*, PitchedMemory, PitchedMemory, std::size_t, std::size_t) { none(); }
void cuda_zero_in_order(void*, void*, std::size_t) { none(); }
void cuda_wait_for_device() { none(); }
int cuda_device_of(const void*) { none(); }
void cuda_wait_for(void*) { none(); }

CudaStream::CudaStream(double) { none(); }
void* CudaStream::get() const { none(); }
void CudaStream::synchronise() const { none(); }
bool CudaStream::idle() const { none(); }
void CudaStream::copy_to_device(void*, const void*, std::size_t) const { none(); }
void CudaStream::copy_to_host(void*, const void*, std::size_t) const { none(); }
void CudaStream::copy_on_device(void*, const void*, std::size_t) const { none(); }
void CudaStream::fill_zero(void*, std::size_t) const { none(); }

CudaEvent::CudaEvent() { none(); }
void CudaEvent::record(const CudaStream&) { none(); }
void CudaEvent::hold(const CudaStream&) const { none(); }
void CudaEvent::synchronise() const { none(); }
double CudaEvent::seconds_since(const CudaEvent&) const { none(); }

CudaGraph::CudaGraph() { none(); }
void CudaGraph::begin(const CudaStream&) { none(); }
void CudaGraph::end() { none(); }
void CudaGraph::abandon() noexcept {}
void CudaGraph::launch(const CudaStream&) const { none(); }
std::size_t CudaGraph::nodes() const { none(); }
CudaGraph::operator bool() const { return false; }

namespace device {
template <class Real>
bool chunk_read_covers(const StateRead<Real>&) {
  return false;
}
template bool chunk_read_covers(const StateRead<float>&);
template bool chunk_read_covers(const StateRead<double>&);
template <class Real>
KeptFormats chunk_read_keeps(const StateRead<Real>&) {
  return {};
}
template KeptFormats chunk_read_keeps(const StateRead<float>&);
template KeptFormats chunk_read_keeps(const StateRead<double>&);
}  // namespace device

std::shared_ptr<const CompiledRule> compiled_rule(const RuleProgram&, bool, bool) { none(); }

#define CROSSTALK_NO_CUDA_STEP(Step)              \
  template <class Real>                           \
  void run_cuda(const Exec&, const Step<Real>&) { \
    none();                                       \
  }                                               \
  CROSSTALK_INSTANTIATE_STEP(cuda, Step)
CROSSTALK_STEPS(CROSSTALK_NO_CUDA_STEP)

#define CROSSTALK_NO_CUDA_OP(Op)                     \
  template <class Real>                              \
  void forward_cuda(const Exec&, const Op<Real>&) {  \
    none();                                          \
  }                                                  \
  template <class Real>                              \
  void backward_cuda(const Exec&, const Op<Real>&) { \
    none();                                          \
  }                                                  \
  CROSSTALK_INSTANTIATE(cuda, Op)
CROSSTALK_OPS(CROSSTALK_NO_CUDA_OP)

}  // namespace crosstalk
