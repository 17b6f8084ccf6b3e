// A model as a trainer sees it, whatever it is: parameters of R replicas, and a graph for every batch
// shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/text/options.h"
#include "models/graph/nodes.h"
#include "models/memory.h"
#include "models/parts/captured.h"

namespace crosstalk {

/// A graph of the model over one batch shape, with what callers fill and read.
template <class Real>
struct ModelGraph {
  ModelGraph(Device device, int R, bool train) : graph(device, R, train) {}
  Graph<Real> graph;
  BatchTensors batch;  ///< tokens [R,B,T,C], query [R,B,Q,1], position, target [R,B,Q]
  Tensor<std::int32_t>* feature_seed = nullptr;  ///< [R,2] low and high word of the seed of random features
  Tensor<std::int32_t>* feature_draw = nullptr;  ///< [R,1] number of the draw (step, or evaluation)
  Tensor<std::int32_t>* dropout_draw =
      nullptr;  ///< [R,1] number of the training step; none where nothing drops
  QueryLoss<Real> loss;
  Variable<Real>* output = nullptr;  ///< y [R,B,Q,V]; the language model has none, its logits come in blocks
  /// Rows and words whose largest logit is an answer (kernels/loss/answers.h): x [R,B,Q,D], and w [R,V,D] or none. In graphs that do
  /// not train; none of a probe.
  Variable<Real>*answer_x = nullptr, *answer_w = nullptr;

  struct Decay {
    Variable<Real>* variable;
    bool logarithm;
  };
  std::vector<Decay> decays;  ///< of the memory, as its engine is given them
  /// Further numbers of every query [R,B,Q], by name, of which the record gets means (Model::derive).
  std::map<std::string, Variable<Real>*> query_metrics;

  bool redraws = true;  ///< random features are drawn anew in every forward pass

  std::uint32_t dropouts = 0;  ///< places where the graph drops numbers

  int batches = 1;  ///< batches that the integer tensors hold, one after the other
  /// Runs what follows from the integers of all batches: call it whenever they have been filled, with batch 0
  /// selected.
  void prepare(const Exec& exec) const;
  /// Makes the graph read batch u: which one is fixed when ops are queued.
  void select(int u);
  std::vector<Buckets> buckets;  ///< of tokens and queries, for gradients of tables

 private:
  int selected_ = 0;
};

/// Reads sequences of any length in pieces of as many tokens: the first by a graph that begins as every sequence does,
/// each of the others by one that goes on from what the piece before has left. Both share the model's parameters.
template <class Real>
struct PieceGraphs {
  std::unique_ptr<ModelGraph<Real>> first, next;
  Tensor<std::int32_t>* places =
      nullptr;  ///< of `next`, to fill: int32 [R,B,T], tokens of the sequence up to each token of the piece
  /// Numbers that a piece leaves, and where the next one finds them.
  struct Hand {
    Variable<Real>*of_first, *of_next, *to;
  };
  std::vector<Hand> hands;
  /// Queues that what a piece has left is given to the next; `of_first`: the first piece.
  void hand_on(const Exec& exec, bool of_first) const;
};

/// What pieces are for.
struct PieceUse {
  std::string option =
      "eval.piece";  ///< that asks for them, and its value (0: the tokens of a piece), for refusals
  int value = 0;
  bool train = false;
  int batches = 1;  ///< that the integers of `next` hold
};

template <class Real>
class Model {
 public:
  /// `options` resolved (model.*, memory.*). `products`: what the operands of products are rounded to.
  Model(const Options& options, Device device, int R, Precision products)
      : parameters_(device, R), options_(options), device_(device), R_(R), products_(products) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;

  ParameterBlock<Real>& parameters() { return parameters_; }
  virtual void initialise(int r, std::uint64_t init_seed) { parameters_.initialise(r, init_seed); }
  /// Parameters that training changes.
  virtual std::int64_t trainable() const { return parameters_.trainable(); }
  /// Makes of the means of query_metrics, which are among `metrics`, what a record holds.
  virtual void derive(std::map<std::string, double>& /*metrics*/) const {}
  /// Sets how graphs made from now on cut their memory; by default by lifetimes on a GPU, apart on a CPU.
  void set_sharing(Sharing sharing) { sharing_ = sharing; }
  /// A planned graph for batches of B sequences; shares the parameters. Its integer tensors hold `batches`
  /// batches.
  virtual std::unique_ptr<ModelGraph<Real>> graph(int B, SequenceShape shape, bool train,
                                                  int batches = 1) = 0;
  /// Planned graphs for pieces of B long sequences, shape.T tokens and at most shape.Q answers a piece. No gradient crosses from
  /// one to the one before. Throws OptionError(use.option, ...) where the model, or a memory in it, cannot go on from what a piece leaves.
  virtual std::unique_ptr<PieceGraphs<Real>> pieces(int B, SequenceShape shape, const PieceUse& use = {});
  /// A planned graph of one sequence, to be looked at after forward(): what it shows is kept. A language model shows
  /// captured.layer, with a query at every token, and its output is the logits [1,Q,answers].
  virtual std::unique_ptr<ModelGraph<Real>> capture(SequenceShape shape, Captured<Real>& captured) = 0;

 protected:
  /// Laws of a study by which parameters start; before the model asks for its parameters.
  void read_inits();
  /// Memory for the parameters, once the model has asked for all. Refuses laws for parameters that `owner` has not.
  void allocate(const std::string& owner);
  /// A graph with nothing but the tensors of its batches and the draws of random features.
  std::unique_ptr<ModelGraph<Real>> begun(int B, SequenceShape shape, bool train, int batches) const;
  /// What `graph` gives: a graph that is built, after the passes.
  static std::unique_ptr<ModelGraph<Real>> planned(std::unique_ptr<ModelGraph<Real>> built);

  ParameterBlock<Real> parameters_;
  std::optional<Sharing> sharing_;
  Options options_;
  Device device_;
  int R_;
  Precision products_;
};

/// The model that the resolved options name. `products`: what the operands of products are rounded to.
template <class Real>
std::unique_ptr<Model<Real>> make_model(const Options& options, const Vocabulary& vocabulary, Device device,
                                        int R, Precision products = Precision::full);

/// Half-lives of what a memory holds, ln 2 / -log(decay) tokens, of a new model on random tokens, over its numbers at many tokens
/// and draws: the 5th, the 50th and the 95th of 100. Empty where nothing fades.
std::vector<double> half_lives_at_start(const Options& options, const Vocabulary& vocabulary);

}  // namespace crosstalk
