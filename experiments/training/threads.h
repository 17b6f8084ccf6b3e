// Whether as many threads as training wants can be had.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

/// Throws DeviceError, with the remedy, unless `count` more threads can live at once. Asked before training,
/// since OpenMP ends the whole process where it gets none.
void require_threads(int count);

}  // namespace crosstalk
