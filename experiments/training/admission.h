// Which packs may train side by side on a device: those that its memory holds together.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <list>

#include "kernels/base/exec.h"

namespace crosstalk {

/// What packs reserve of a device's memory. Guarded by its owner; asked by threads that have chosen the device.
class Admission {
 public:
  struct Place {
    std::size_t bytes;
    bool shared = false;   ///< another pack was here meanwhile
    bool crowded = false;  ///< other programs held much of the device when it came, alone
  };
  using Holder = std::list<Place>::iterator;

  explicit Admission(Device device) : device_(device) {}

  /// Whether packs are measured before they begin: where memory has an end (that of a CPU has none here), once it has
  /// been scarce.
  bool counts();
  /// Whether a pack of so many bytes may train now, beside those that do. Alone any may: what it needs is known only
  /// when it is there.
  bool fits(std::size_t bytes);
  /// Whether it would fit if nobody else were here.
  bool ever_fits(std::size_t bytes);
  Holder enter(std::size_t bytes);
  void leave(Holder holder) { places_.erase(holder); }

  /// Whether other programs hold much of the device. Asked while no pack is here.
  bool crowded() const;
  /// Whether one that needs so many bytes (0: not known) would fit if no other program held any.
  bool ever_fits_alone(std::size_t bytes) const;

  /// After an OutOfMemory of a pack that was not alone and has left: its reservation next time. It grows until the pack
  /// is alone.
  std::size_t after_shortage(std::size_t bytes);

 private:
  std::size_t reserved() const;
  void look();

  Device device_;
  std::size_t whole_ = 0;     ///< free when nobody trains
  bool scarce_ = false;       ///< more than half of it was taken, or there was a shortage
  std::size_t capacity_ = 0;  ///< of all packs together: the same, or less after a shortage
  std::list<Place> places_;
};

}  // namespace crosstalk
