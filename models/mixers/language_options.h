// Options of the language model, and the layers that they name.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/text/options.h"
#include "models/memory.h"

namespace crosstalk {

/// One layer of the stack.
struct LanguageLayer {
  bool conv = false;  ///< base_conv; else a memory
  Options options;  ///< model.* with what the stack says of this layer, and memory.* of its memory, resolved
};

/// Options under "model." that the language model alone has.
const std::vector<OptionSpec>& language_options();
/// Tells whether options name it.
bool is_language(const Options& options);

/// Derives sizes that are 0, and refuses what the model cannot do.
void resolve_language(Options& options, const Vocabulary& vocabulary);
/// Refuses options of the language model that are away from their defaults.
void refuse_language_options(const Options& options);

/// The layers of model.stack, model.layers of them; memory.* must have been resolved. Throws OptionError.
std::vector<LanguageLayer> language_layers(const Options& options);
/// Applies model.layer = "published" to options that the study left at their defaults: sizes, and the memories that the
/// stack names, which get their settings in parentheses. Those of `kind` itself are PublishedLayer::set.
void publish(Options& options, const Memory& kind, const std::vector<std::string>& said);
/// Refuses heads that do not divide keys and values.
void check_head_sizes(const Options& options);
/// Hidden units of an MLP.
int hidden_units(const Options& options);

/// Floats that all layers keep of a sequence after `length` tokens: states of memories, and the tokens that convolutions
/// and shifts look back to (for base_conv width times taps, as Zoology counts).
std::int64_t language_state(const Options& options, std::int64_t length);

}  // namespace crosstalk
