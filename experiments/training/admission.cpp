// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/admission.h"

#include <algorithm>
#include <iterator>

#include "kernels/base/buffer.h"

namespace crosstalk {
namespace {

/// Kept for what is not counted: code that is loaded when first used, gaps between pieces.
constexpr std::size_t kSpare = 16;  // a 16th
/// What a pack at least takes: where nothing is left, none begins.
constexpr std::size_t kLeast = 1;
/// And after a shortage.
constexpr std::size_t kStep = std::size_t{1} << 20;
/// What this process itself holds beside buffers (a context, code) is less than this, and than an 8th of the device.
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
  // Measuring a pack takes about as long as making it. While half of the memory is free, none is measured: what begins
  // then and does not fit after all is tried again, measured.
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
  if (whole_ >= kEndlessMemory) return whole_;  // how much there is nobody knows: alone, then
  capacity_ = std::min(capacity_, reserved() + free_memory(device_));
  if (bytes == 0) return 0;  // to be measured
  return std::min(std::max(2 * bytes, kStep), std::max(bytes, whole_));
}

}  // namespace crosstalk
