// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "tasks/draw_cuda.h"

namespace crosstalk {
namespace {
[[noreturn]] void none() { throw DeviceError("this crosstalk was built without CUDA; use --device cpu"); }
}  // namespace

void draw_on_cuda(const RecallSpec&, const Exec&, const DrawArgs&) { none(); }
void draw_on_cuda(const ReassignSpec&, const Exec&, const DrawArgs&) { none(); }
void draw_on_cuda(const SwapSpec&, const Exec&, const DrawArgs&) { none(); }

}  // namespace crosstalk
