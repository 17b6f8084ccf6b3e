// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/gpu_report.h"

#include <fmt/format.h>

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/common/text.h"
#include "kernels/attention/attend_mix.h"
#include "kernels/linear/joined_linear.h"
#include "kernels/recurrence/state_read.h"

namespace crosstalk::program {
namespace {

/// Tokens of the longest sequence whose heads of so many numbers a block holds whole.
int longest_whole(int columns, std::size_t limit) {
  int longest = 0;
  for (int T = WholeHead::kStep; T <= AttendMix<float>::kWholeRows; T += WholeHead::kStep)
    if (WholeHead(T, T, columns, limit).fits(limit)) longest = T;
  return longest;
}

/// Square maps of one width that are joined.
int most_joined(int width, std::size_t limit) {
  LinearSlabs slabs;
  slabs.inputs = width;
  int count = 0;
  while (count < LinearSlabs::kMostOutputs && slabs.add(count, width) && slabs.fits(limit)) ++count;
  return count;
}

/// The widest heads, of as many key channels as values, that are walked in chunks.
int widest_chunks(Precision products, Erase erase, bool channels) {
  int widest = 0;
  for (const int size : {32, 64, 128}) {
    StateRead<float> op;
    op.form = StateForm::chunkwise, op.products = products, op.erase = erase;
    alignas(16) std::array<float, 16> places;  // no two fields are one variable
    std::size_t next = 0;
    const auto field = [&](In<float>& to, int columns) {
      to.value = shaped<float>(1, {1, 256, 1, columns});
      to.value.data = &places[4 * next++];
    };
    field(op.q, size), field(op.k, size), field(op.v, size);
    if (channels) field(op.log_decay, size);
    op.plan();
    if (op.form_name(Device::cuda) == std::string("chunk")) widest = size;
  }
  return widest;
}

}  // namespace

std::string code_text(const Gpu& gpu) {
  const auto version = [](int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); };
  std::string text = "compute capability " + version(gpu.capability);
  if (gpu.code == 0) return text + ", for which this crosstalk has no code";
  if (gpu.by_driver) {
    text += fmt::format(", code for {} that the driver compiles when it is first used", version(gpu.code));
  } else {
    text += gpu.code == gpu.capability ? " with code of its own"
                                       : fmt::format(" with code for {}", version(gpu.code));
  }
  text += gpu.wgmma ? ": products by wgmma" : ": products by mma.sync";
  return text + (gpu.clusters ? ", clusters of blocks" : ", no clusters of blocks");
}

std::string fused_forms_text(std::size_t limit) {
  std::vector<std::string> parts;
  for (const int columns : {64, 128}) {
    const int tokens = longest_whole(columns, limit), maps = most_joined(columns, limit);
    parts.push_back(fmt::format(
        "width {}: {}, {}", columns,
        maps > 0 ? fmt::format("{} joined", plural(maps, "map")) : "no joined maps",
        tokens > 0 ? fmt::format("attention in whole heads to {} tokens", tokens) : "attention in tiles"));
  }
  return fmt::format("{} KiB of shared memory a block (bf16, {})", limit / 1024, join(parts, "; ", "; "));
}

std::string chunks_text() {
  std::vector<std::string> parts;
  for (const auto& [name, erase, channels] : {std::tuple{"sum rules", Erase::none, false},
                                              {"delta rules", Erase::delta, false},
                                              {"decays a channel", Erase::delta, true}}) {
    std::vector<std::string> formats;
    for (const auto& [format, products] :
         {std::pair{"bf16", Precision::bf16}, {"tf32", Precision::tf32}, {"fp32", Precision::full}}) {
      const int widest = widest_chunks(products, erase, channels);
      formats.push_back(widest > 0 ? fmt::format("{} to {}", format, widest)
                                   : fmt::format("{} never", format));
    }
    parts.push_back(fmt::format("{} {}", name, join(formats, ", ", ", ")));
  }
  return fmt::format("heads in chunks: {}; wider ones token after token", join(parts, "; ", "; "));
}

}  // namespace crosstalk::program
