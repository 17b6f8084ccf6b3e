// The parameters of a pack: one flat block a replica, with gradients and Adam's moments in blocks of the same
// layout.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/tensor.h"

namespace crosstalk {

/// Start of a parameter. Drawn without libm, so that the bits are the same everywhere (L2).
struct Init {
  enum class Law {
    uniform,
    normal,
    constant,
    log_uniform,
    inverse_softplus,
    logit_step,
    signed_step,
    listed,
    orthogonal
  } law = Law::uniform;
  double low = -1, high = 1;      ///< normal: mean and standard deviation; constant: low
  std::vector<double> list = {};  ///< listed: the numbers in order, again and again

  static Init uniform(double scale) { return {Law::uniform, -scale, scale}; }
  static Init normal(double deviation) { return {Law::normal, 0, deviation}; }
  static Init constant(double value) { return {Law::constant, value, value}; }
  /// log U(low, high): A_log of Mamba-2.
  static Init log_uniform(double low, double high) { return {Law::log_uniform, low, high}; }
  /// softplus^-1 of exp U(log low, log high): dt_bias of Mamba-2.
  static Init inverse_softplus(double low, double high) { return {Law::inverse_softplus, low, high}; }
  /// logit(y / 5), y = exp U(log low, log high): exp(-5 sigmoid(.)) is then e^-y.
  static Init logit_step(double low, double high) { return {Law::logit_step, low, high}; }
  /// 2 artanh((e^-y - e^-5) / (1 - e^-5)) of either sign, y as before: e^-5 + (1 - e^-5) |tanh(. / 2)| is then e^-y
  /// (Complex KDA).
  static Init signed_step(double low, double high) { return {Law::signed_step, low, high}; }
  static Init listed(std::vector<double> numbers) { return {Law::listed, 0, 0, std::move(numbers)}; }
  /// A matrix [first dimension, all others] whose rows or columns, whichever are fewer, are orthogonal and of length `gain`.
  static Init orthogonal(double gain) { return {Law::orthogonal, gain, gain}; }
  /// The same law times a number: of uniform, normal, constant and orthogonal.
  Init times(double factor) const;
  /// "U(-0.1, 0.1)", for describe; parse() reads the first five laws back.
  std::string text() const;
  /// "0.5", "U(a, b)", "N(mean, deviation^2)", "log U(a, b)", "softplus^-1(exp U(log a, log b))". Throws
  /// std::invalid_argument that says what is wrong.
  static Init parse(const std::string& text);
  /// The value that a uniform number in (0, 1) stands for, of element i (orthogonal: before its rows are made so).
  double value(double u, std::int64_t i = 0) const;
  friend bool operator==(const Init&, const Init&) = default;

  /// exp U(log low, log high).
  double step_of(double u) const;
};

/// Layout first (add), then memory (allocate), then values (initialise). Shared by all graphs of a pack.
template <class Real>
class ParameterBlock {
 public:
  ParameterBlock(Device device, int R) : device_(device), R_(R) {}

  /// Adds a parameter and returns its index. Names are unique ("key_embedding"); they key the initialisation
  /// stream.
  int add(const std::string& name, std::vector<int> dims, Init init);
  /// The parameter that whoever asks now calls so; added if there is none yet, which must be before allocate(). Nobody gets
  /// another's: where the memory and the model around it say one name, whoever asked first, the model's keeps it and the
  /// memory's is called NAME.memory.
  int named(const std::string& name, const std::vector<int>& dims, Init init);
  /// Asks for a quantity of the memory, all of whose parameters are called after it, until it goes; else the model asks.
  class Asking {
   public:
    Asking(ParameterBlock& block, std::string quantity)
        : block_(block), before_(std::exchange(block.asking_, std::move(quantity))) {}
    ~Asking() { block_.asking_ = before_; }
    Asking(const Asking&) = delete;

   private:
    ParameterBlock& block_;
    std::string before_;
  };
  /// Laws of a study in place of the models' own, by parameter ("gate.bias = 0; key_embedding = N(0,
  /// 0.1^2)"). Before the parameters are added; throws std::invalid_argument.
  void set_inits(const std::string& text);
  /// Parameters of those that nobody added.
  std::vector<std::string> unused_inits() const;
  bool allocated() const { return values_.data() != nullptr; }
  void allocate();

  /// Draws every parameter of replica r: a pure function of (init_seed, name). Clears gradient and moments.
  void initialise(int r, std::uint64_t init_seed);

  /// Bytes of replica r's values and moments, and their way back. Throws std::runtime_error if the size does
  /// not fit.
  std::string snapshot(int r) const;
  void restore(int r, const std::string& bytes);

  Tensor<Real> value(int i) const { return view(values_, i); }
  Tensor<Real> gradient(int i) const { return view(gradients_, i); }
  const Init& init(int i) const { return entries_[static_cast<std::size_t>(i)].init; }
  const std::string& name(int i) const { return entries_[static_cast<std::size_t>(i)].name; }
  int count() const { return static_cast<int>(entries_.size()); }

  /// Whole blocks [R, size]: for the optimizer and for checks.
  Tensor<Real> values() const { return whole(values_); }
  Tensor<Real> gradients() const { return whole(gradients_); }
  Tensor<Real> first_moments() const { return whole(first_moments_); }
  Tensor<Real> second_moments() const { return whole(second_moments_); }
  std::int64_t trainable() const;  ///< numbers that training changes, a replica

 private:
  struct Entry {
    std::string name;
    Tensor<Real> shape;  ///< no memory
    Init init;
    std::int64_t offset;
    std::string asked, quantity;  ///< what it was asked for as, and by which quantity; "": the model
  };
  bool is_there(const std::string& name) const;
  /// A name for what `quantity` asked for, that nobody has.
  std::string apart(const std::string& asked, const std::string& quantity) const;
  Tensor<Real> view(const Buffer& buffer, int i) const;
  Tensor<Real> whole(const Buffer& buffer) const;

  Device device_;
  int R_;
  std::int64_t size_ = 0;  ///< elements a replica, padded
  std::vector<Entry> entries_;
  std::map<std::string, Init> inits_;
  std::string asking_;
  Buffer values_, gradients_, first_moments_, second_moments_;
};

}  // namespace crosstalk
