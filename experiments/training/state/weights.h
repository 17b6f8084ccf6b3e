// Weights of a model as named arrays: kept at the end of training (train.keep_weights), and what training
// starts from (train.init_from). As bytes they are NumPy's .npz.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/text/options.h"
#include "models/graph/parameters.h"

namespace crosstalk {

/// One parameter. A float is kept exactly as a double.
struct WeightArray {
  std::string name;  ///< as 'crosstalk describe MEMORY' names it
  std::vector<std::int64_t> shape;
  std::vector<double> data;
};

struct Weights {
  bool is_double = false;  ///< the precision in which they were trained
  std::vector<WeightArray> arrays;
  std::string run;  ///< whose they are, where their file says so: what a store keeps does
};

/// The parameters of replica r, and their way back. load_weights() wants names and shapes as check_weights()
/// does, and leaves moments alone.
template <class Real>
Weights weights_of(const ParameterBlock<Real>& block, Device device, int r);
template <class Real>
void load_weights(const Weights& weights, ParameterBlock<Real>& block, Device device, int r);

/// Bytes of a .npz file, and back. Throws std::runtime_error; `path` is for messages.
std::string to_npz(const Weights& weights);
Weights weights_from_npz(const std::string& bytes, const std::string& path);

/// Throws std::runtime_error where a store's file of this run says that it is another's.
void check_run(const Weights& weights, const std::string& run, const std::string& path);

/// Hash of names, shapes and numbers as 32 hex digits, independent of path and order.
std::string digest(const Weights& weights);

/// What is wrong with weights for a model with the parameters of `block`: one sentence that names all that
/// differ; "" if nothing is.
template <class Real>
std::string misfit(const Weights& weights, const ParameterBlock<Real>& block);

/// What train.init_from names: "STORE:RUN" (the beginning of an id is enough), "STORE" that keeps the weights
/// of one run, or a .npz file. Throws std::runtime_error that says what is wrong and what there is.
std::shared_ptr<const Weights> find_weights(const std::string& from);

/// Reads what train.init_from names, checks it against the model that the resolved options describe, and sets
/// train.init_digest. Throws OptionError.
void resolve_init_from(Options& options);

/// What a run starts from: as resolve_init_from() found it, or nullptr for none. Throws std::runtime_error if
/// it is no longer what it was.
std::shared_ptr<const Weights> initial_weights(const Options& config);

}  // namespace crosstalk
