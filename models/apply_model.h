// One memory on given tensors: what stands in q, k, v and the gates goes into its equation, with nothing
// hidden.
//
// Every head of every sequence is a memory of its own. Forward gives what is read after (or, as the memory
// says, before) every token and the states at the end; backward gives the gradient of sum(o * d_o), and where it is asked
// for also of sums over the states times what is given for them, for every input.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/memories/memory_file.h"

namespace crosstalk {

/// Sizes of the tensors, the letters of shapes: N writes a token. Also M = 4 K hidden units (models/memory.h) and L levels
/// (models/parts/levels.h).
struct ApplySizes {
  int B = 1, T = 1, H = 1, K = 1, V = 1, N = 1;
  std::map<char, int> letters = {};  ///< Memory::letters
  int mapped = 0;                    ///< K of all but q and k: that behind the feature map; 0: the same
};
/// The same with the letters that are options of the memory: as given, else as they are, else at the options' defaults; and with
/// the keys that its feature map makes.
ApplySizes with_letters(const Memory& memory, ApplySizes sizes,
                        const std::map<std::string, OptionValue>& given);

/// The input that holds a state before the first token: s0, w1_0.
inline std::string start_name(const std::string& state) {
  std::string name;
  for (const char c : state) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name + (std::isdigit(static_cast<unsigned char>(name.back())) ? "_0" : "0");
}

/// An input of a memory: its name, its shape, and whether it may be left out.
struct ApplyInput {
  std::string name;
  std::vector<int> dims;
  std::string shape;  ///< "[B,T,H,K]"
  bool optional = false;
};
/// Everything that a memory reads, q, k, v and the states before the first token among it.
std::vector<ApplyInput> apply_inputs(const Memory& memory, const ApplySizes& sizes);

/// The shape in which a state is shown whose tensor has these dimensions: that of its start, where it has one, and sums of
/// keys and numbers a head without dimensions of size 1.
std::vector<int> state_dims(const Memory& memory, const ApplySizes& sizes, const std::string& state,
                            const std::vector<int>& dims);

/// Options of a memory as `apply` starts from: identity feature map, no normalisation, eps 0, then `given`
/// on top; resolved.
/// Throws OptionError for what the memory refuses.
Options apply_options(const Memory& memory, const ApplySizes& sizes,
                      const std::map<std::string, OptionValue>& given);

/// The forms that compute a memory, of `rule` that of a law, with these options and sizes.
std::vector<std::string> apply_forms(const Memory& memory, std::map<std::string, OptionValue> given = {},
                                     std::optional<ApplySizes> sizes = {});

/// Options that apply adds to those of a memory: scale, eps of denominators, and feature map and key norm
/// where it has none.
std::vector<OptionSpec> apply_extra_options(const Memory& memory);

template <class Real>
class ApplyModel {
 public:
  /// The memory must stay. `present`: the optional inputs that are given. `backward`: gradients are wanted. `ends`: so are
  /// states; `end_gradients`: backward starts from them too.
  ApplyModel(const Memory& memory, const Options& options, const ApplySizes& sizes,
             const std::vector<std::string>& present, Device device, bool backward,
             Precision products = Precision::full, bool ends = true, bool end_gradients = false);

  /// Tensors of one replica, by name: inputs to fill, and after the passes "o", states "S", "z", and d_o to
  /// fill.
  bool has_input(const std::string& name) const { return inputs_.count(name) != 0; }
  Tensor<Real> input(const std::string& name) const { return inputs_.at(name)->value; }
  Tensor<Real> gradient(const std::string& name) const { return inputs_.at(name)->gradient; }
  bool differentiated(const std::string& name) const { return inputs_.at(name)->gradient_written; }
  Tensor<Real> output() const { return output_->value; }
  Tensor<Real> cotangent() const { return cotangent_->value; }
  /// A caller's gradient of a state at the end, of its shape; only with end_gradients, and of states that depend on an
  /// input.
  bool has_end_cotangent(const std::string& state) const { return end_cotangents_.count(state) != 0; }
  Tensor<Real> end_cotangent(const std::string& state) const { return end_cotangents_.at(state)->value; }
  const std::map<std::string, Variable<Real>*>& states() const { return states_; }
  Graph<Real>& graph() { return graph_; }
  /// Those of input(), output() and cotangent(), for who gives them other memory (python/core).
  Variable<Real>* input_variable(const std::string& name) const { return inputs_.at(name); }
  Variable<Real>* output_variable() const { return output_; }
  Variable<Real>* cotangent_variable() const { return cotangent_; }

 private:
  class ApplyMixer;
  const Memory& memory_;
  Graph<Real> graph_;
  std::set<std::string> read_;  ///< inputs that the memory has asked for
  std::map<std::string, Variable<Real>*> inputs_, states_, end_cotangents_;
  Variable<Real>*output_ = nullptr, *cotangent_ = nullptr;
  bool ends_;
};

}  // namespace crosstalk
