// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/admission.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/buffer.h"

namespace crosstalk {
namespace {

/// Reserve for memory that is not counted: code loaded at first use, gaps between pieces.
constexpr std::size_t kSpare = 16;  // a 16th
/// Least reservation of a pack: with none left, no pack begins.
constexpr std::size_t kLeast = 1;
/// The same after a shortage.
constexpr std::size_t kStep = std::size_t{1} << 20;
/// Bound on this process's memory besides buffers (a context, code); another is an 8th of the device.
constexpr std::size_t kOwn = std::size_t{2} << 30;

}  // namespace

void Admission::look() {
  if (!places_.empty()) return;
  whole_ = free_memory(device_);
  if (device_ == Device::cuda) whole_ -= whole_ / kSpare;
  capacity_ = whole_;
}

bool Admission::counts() {
  look();
  if (whole_ >= kEndlessMemory) return false;
  // Measuring a pack takes about as long as making it. While half of the memory is free, none is measured: a pack that
  // then does not fit after all is tried again, measured.
  if (!scarce_ && free_memory(device_) < whole_ / 2) {
    scarce_ = true;
    capacity_ = std::min(capacity_, reserved() + free_memory(device_));
  }
  return scarce_;
}

std::size_t Admission::reserved() const {
  std::size_t sum = 0;
  for (const Place& place : places_) sum += place.bytes;
  return sum;
}

bool Admission::fits(std::size_t bytes) {
  if (places_.empty()) return true;
  const std::size_t taken = reserved();
  return taken <= capacity_ && std::max(bytes, kLeast) <= capacity_ - taken;
}

bool Admission::ever_fits(std::size_t bytes) {
  look();
  return bytes <= whole_;
}

Admission::Holder Admission::enter(std::size_t bytes) {
  look();
  const bool shared = !places_.empty();
  if (shared)
    for (Place& place : places_) place.shared = true;
  places_.push_back({std::max(bytes, kLeast), shared, crowded()});
  return std::prev(places_.end());
}

bool Admission::crowded() const {
  const std::size_t whole = whole_memory(device_);
  if (!places_.empty() || whole >= kEndlessMemory) return false;
  return whole - std::min(whole, free_memory(device_)) > std::min(kOwn, whole / 8);
}

bool Admission::ever_fits_alone(std::size_t bytes) const {
  const std::size_t whole = whole_memory(device_);
  return bytes <= whole - whole / kSpare;
}

std::size_t Admission::after_shortage(std::size_t bytes) {
  look();
  scarce_ = true;
  if (whole_ >= kEndlessMemory) return whole_;  // of unknown size: alone, then
  capacity_ = std::min(capacity_, reserved() + free_memory(device_));
  if (bytes == 0) return 0;  // to be measured
  return std::min(std::max(2 * bytes, kStep), std::max(bytes, whole_));
}

}  // namespace crosstalk
