// Admission of packs to a device: they train side by side where its memory holds them together.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <list>

#include "kernels/base/exec.h"

namespace crosstalk {

/// Reservations of a device's memory by packs. Its owner locks; callers are threads that have chosen the device.
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
  /// Whether a pack of `bytes` may train now, besides those that do. A lone pack always may: its need is known only after
  /// allocation.
  bool fits(std::size_t bytes);
  /// Whether it would fit without other packs.
  bool ever_fits(std::size_t bytes);
  Holder enter(std::size_t bytes);
  void leave(Holder holder) { places_.erase(holder); }

  /// Whether other programs hold much of the device. Asked while no pack is here.
  bool crowded() const;
  /// Whether a pack of `bytes` (0: not known) would fit without other programs.
  bool ever_fits_alone(std::size_t bytes) const;

  /// The next reservation of a pack that was not alone, after its OutOfMemory: it grows until the pack is alone.
  std::size_t after_shortage(std::size_t bytes);

 private:
  std::size_t reserved() const;
  void look();

  Device device_;
  std::size_t whole_ = 0;     ///< free without packs
  bool scarce_ = false;       ///< more than half of it was taken, or there was a shortage
  std::size_t capacity_ = 0;  ///< of all packs together: the same, or less after a shortage
  std::list<Place> places_;
};

}  // namespace crosstalk
