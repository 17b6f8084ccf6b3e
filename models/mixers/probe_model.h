// A probe: a memory on random codes, with nothing learned. Every key of the vocabulary is a random vector of
// length 1 (or one of an orthonormal set), every value one of probe_values numbers; keys, queries and values
// go to the memory as they are, and gates are open (Open): nothing is held back and nothing fades.
//
//   loss    half of the squared error |o - v|^2 of what is read, o, from the code v of the right value
//   right   o.v is larger than the product with every other code of the vocabulary
//   SNR     s^2 / (mean of |o|^2 - s^2), s the mean of o.v: all that is not s v is noise
//
// Where tokens are examples of real numbers (kNumberUnit) nothing is coded: keys and queries are x / sqrt(d), values y, and what
// is right is y'; beside the error stands the least that one gain for all reads would leave.
//
// Theory for it is in results/numbers/probe_theory.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "models/memory.h"
#include "models/model.h"

namespace crosstalk {

/// Tells whether options name it.
bool is_probe(const Options& options);
/// Options under "model." that a probe alone has.
const std::vector<OptionSpec>& probe_options();
/// Derives probe_values where it is 0, and refuses what has no meaning. For every model: options of a probe
/// around no probe are refused.
void resolve_probe(Options& options, std::int64_t keys);
/// Derives probe_scale where it is 0, which needs the resolved memory.
void resolve_probe_scale(Options& options);
/// Numbers a value: those of a probe's codes, else `values`, as one-hot vectors have them.
std::int64_t value_size(const Options& options, std::int64_t values);
/// Value that a probe gives an input of a memory.
Open open_value(const MemoryInput& input);

template <class Real>
class ProbeModel final : public Model<Real> {
 public:
  ProbeModel(const Options& options, const Vocabulary& vocabulary, Device device, int R,
             Precision products = Precision::full);

  /// Draws the codes: a pure function of the seed.
  void initialise(int r, std::uint64_t init_seed) override;
  std::int64_t trainable() const override { return 0; }
  /// squared_error, twice the test loss, and snr.
  void derive(std::map<std::string, double>& metrics) const override;
  /// Not for training (std::logic_error).
  std::unique_ptr<ModelGraph<Real>> graph(int B, SequenceShape shape, bool train, int batches = 1) override;
  std::unique_ptr<ModelGraph<Real>> capture(SequenceShape shape, Captured<Real>& captured) override;

 private:
  using Model<Real>::parameters_, Model<Real>::options_, Model<Real>::device_;
  std::unique_ptr<ModelGraph<Real>> build(int B, SequenceShape shape);

  Vocabulary vocabulary_;
};

}  // namespace crosstalk
