// The rules of a training run for models that are trained elsewhere: order of batches, rates, evaluations, when it ends, record.
// SPDX-License-Identifier: Apache-2.0
#include "python/core/convert.h"

namespace crosstalk::python {

void bind_course(nb::module_&) {}

}  // namespace crosstalk::python
