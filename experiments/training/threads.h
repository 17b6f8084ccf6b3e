// Whether as many threads as training wants can be had, and how many of them train a pack.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

/// Throws DeviceError, with the remedy, unless `count` more threads can live at once. Asked before training,
/// since OpenMP ends the whole process where it gets none.
void require_threads(int count);

/// Chooses between one thread and all that the scheduler offers. Times both now and then: small ops lose more at barriers than
/// they gain, above all on a machine that others use too. Results do not depend on the choice.
class ThreadChooser {
 public:
  int choose(int offered) {
    ++chunk_;
    if (offered <= 1) return 1;
    const bool retry = chunk_ % 16 == 0;  // the other one's time may be out of date
    const bool one_wins = seconds_[0] <= seconds_[1];
    return (one_wins != retry) ? 1 : offered;
  }
  void measured(int threads, double seconds_a_step) { seconds_[threads > 1] = seconds_a_step; }

 private:
  int chunk_ = 0;
  double seconds_[2] = {0, 0};  ///< 0: not measured, so it is tried
};

}  // namespace crosstalk
