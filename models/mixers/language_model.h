// A small language model whose mixers are memories: pre-norm blocks over embedded tokens.
//
//   x = E[token] (+ P[t])
//   x += mixer(norm(x)),  x += mlp(norm(x))            for every layer; the mixer is a memory between projections of the
//                                                      tokens, its heads joined by an output projection, or base_conv
//                                                      (with model.prenorm = false mixers see x itself)
//   loss = cross-entropy of W norm(x) against the answer, at the tokens at which one is due; W = E where the head is tied
//                                                      (with model.readout = "mlp" of W gelu(W' norm(x) + b))
//
// A decoder makes all answers of what the last token holds: y = g(W2 norm(g(W1 norm(x_T + P[t])))) in place of x_t, g GELU, P waves.
//
// Of the last layer queries, outputs and the MLP are computed only at the tokens at which an answer is due (keys and values
// at all), and logits in blocks of these rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "models/mixers/language_options.h"
#include "models/model.h"
#include "models/parts/carried.h"

namespace crosstalk {

template <class Real>
class LayerWeights;

template <class Real>
class LanguageModel final : public Model<Real> {
 public:
  /// Vocabulary sizes are as the task says.
  LanguageModel(const Options& options, const Vocabulary& vocabulary, Device device, int R,
                Precision products = Precision::full);

  std::unique_ptr<ModelGraph<Real>> graph(int B, SequenceShape shape, bool train, int batches = 1) override;
  std::unique_ptr<PieceGraphs<Real>> pieces(int B, SequenceShape shape, const PieceUse& use) override;
  /// Graphs made from now on compute the last layer at every token, as if each had an answer: to check the others against.
  void compute_every_row() { every_row_ = true; }
  /// Throws std::out_of_range where captured.layer is none, or no memory.
  std::unique_ptr<ModelGraph<Real>> capture(SequenceShape shape, Captured<Real>& captured) override;

 private:
  using Model<Real>::parameters_, Model<Real>::options_, Model<Real>::device_;
  /// Numbers that layers carry, of a graph that reads pieces: of this one, and of the one by which the piece before is read.
  struct Piece {
    std::vector<Carried<Real>>* carried = nullptr;
    const std::vector<Carried<Real>>* before = nullptr;
  };
  std::unique_ptr<ModelGraph<Real>> build(int B, SequenceShape shape, bool train, int batches,
                                          Captured<Real>* captured = nullptr, const Piece& piece = {});
  /// Gives the layers of a piece that goes on a place for what they begin with.
  void make_starts(ModelGraph<Real>& target, const Piece& piece);
  Variable<Real>* embed(ModelGraph<Real>& target, Variable<Real>* embedding);
  bool asks_at_all(const BatchTensors& batch) const;
  bool reads_alone(int layer, const BatchTensors& batch) const;
  /// Tells whether answers are made of what the last token holds, by a decoder.
  bool decodes() const { return options_.get_string("model.decoder") == "last"; }
  Variable<Real>* mixed(ModelGraph<Real>& target, int layer, Variable<Real>* x, Variable<Real>* asking,
                        Captured<Real>* captured, Carried<Real>* carried);
  Variable<Real>* base_conv(LayerWeights<Real>& weights, Variable<Real>* x, Carried<Real>* carried);
  Variable<Real>* mlp(ModelGraph<Real>& target, int layer, Variable<Real>* x);
  Variable<Real>* readout(ModelGraph<Real>& target, LayerWeights<Real>& weights, Variable<Real>* x);

  std::vector<LanguageLayer> layers_;
  int tokens_, answers_, width_;
  bool every_row_ = false;
  Variable<Real>* first_values_ =
      nullptr;  ///< of the graph that is being built: those of model.value_residual
};

}  // namespace crosstalk
