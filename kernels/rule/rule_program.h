// The program of an update rule: typed operations over numbers of one memory, for one token of one sequence and head.
//
// The memory of a walk is  states | kept (backward) | constants | inputs | what is read | gradients (backward) | temporaries.  A place is an
// offset into it; values of four numbers and more stand at multiples of four, so that they move in wide accesses. The adjoint
// is a list of the same operations, so one executor runs both directions.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/base/buffer.h"

namespace crosstalk {

enum class RuleCode : std::uint8_t {
  numbers,  ///< the next `inner` operations make a number each of numbers: one thread does them
  add,      ///< a + b, entry by entry; so are the next five
  sub,
  mul,
  div,
  max,
  min,
  neg,
  map,          ///< f(a); `map` says which
  copy,         ///< a
  fill,         ///< a number, repeated
  add_product,  ///< c + a * b, or c - a * b, entry by entry; up to here, of numbers, they follow `numbers`
  add_outer,    ///< c + a b^T, or c - a b^T
  eye,          ///< 1 on the diagonal
  product,      ///< sum_l a_il b_lj, l < inner
  transpose,    ///< a_ji
  columns,      ///< a_ij b_j
  rows,         ///< a_ij b_i
  diag,         ///< a_i on the diagonal
  diagonal,     ///< a_ii
  sum,          ///< sum of a (times b where there is one) over inner numbers
  row_sums,     ///< the same along rows of inner numbers
  column_sums,  ///< the same along columns of inner numbers
  softmax,
  unit,   ///< a / sqrt(|a|^2 + 1e-6)
  solve,  ///< x of a x = b, a symmetric and positive definite; c is room for a
};

/// Functions of `map` beside MapKind.
inline constexpr int kRuleSqrt = 100, kRuleAbs = 101, kRuleSign = 102, kRulePositive = 103;

/// 32 bytes: two wide accesses of a GPU.
struct alignas(16) RuleOperation {
  static constexpr int kNumberA = 1, kNumberB = 2, kTransposedA = 4, kTransposedB = 8, kMinus = 16;
  /// c times the number at `inner`, or divided by it: of add_outer and add_product.
  static constexpr int kScaled = 32, kDivided = 64;
  RuleCode code = RuleCode::copy;
  std::uint8_t map = 0;
  std::uint16_t flags = 0;
  int rows = 1, columns = 1, inner = 1;  ///< of y; of sums
  int a = -1, b = -1, c = -1, y = 0;     ///< places
};
static_assert(sizeof(RuleOperation) == 32);

/// Rows of an input: one for each of these.
enum class RulePer : int { sequence, token, query };

/// Places in a program's memory and among its operations.
struct RuleLayout {
  struct Part {
    int first = 0, count = 0;
  };
  /// Parts of a walk forward and of one backward: the states before the first token, a token's step, a reading.
  Part start, step, read, start_again, step_again;
  /// Adjoints: they replace the gradient of states by that before, and add to gradients of inputs a sequence.
  Part start_back, step_back, read_back;
  int size = 0;  ///< numbers of all states, with what may lie between them
  int output = 0, outputs = 1, output_gradient = 0;
  int state_gradient = 0;                ///< of all states, in their order
  int gradients = 0, gradients_end = 0;  ///< places that backward clears: gradients of inputs
  int kept = 0;                          ///< numbers of RuleProgram::sums in all
  bool before = false;
};

struct RuleProgram : RuleLayout {
  static constexpr int kMostInputs = 24, kMostStates = 8;
  struct Input {
    RulePer per = RulePer::token;
    int width = 1, place = 0, gradient = 0;  ///< `gradient`: where backward works it out
    int rows = 1;                            ///< of a matrix, row by row; 1: a number or a vector
  };
  struct State {
    int rows = 1, columns = 1, place = 0;
    int numbers() const { return rows * columns; }
  };
  struct Constant {
    int place = 0;
    double value = 0;
  };
  std::vector<RuleOperation> operations;
  std::vector<Constant> constants;
  std::vector<Input> inputs;
  std::vector<State> states;  ///< from place 0 on, in their order
  /// Sums that a step of the walk again leaves for its adjoint, behind the states: sums over matrices.
  std::vector<State> sums;
  int forward_numbers = 0, backward_numbers = 0;
  int largest = 1;           ///< numbers of the largest value
  int keys = 0, values = 0;  ///< K and V that it was made for

  /// Operations and constants, for the interpreters.
  struct Lists {
    const RuleOperation* operations;
    const Constant* constants;
  };
  Lists on_host() const { return {operations.data(), constants.data()}; }
  /// In the memory of the calling thread's GPU; copied there when first asked for.
  Lists on_device() const {
    const std::lock_guard lock(mutex_);
    const auto copied = [](auto& copy, const auto& all) {
      const std::size_t bytes = all.size() * sizeof(all[0]);
      if (copy.bytes() == 0 && bytes > 0) {
        copy = Buffer::planned(Device::cuda, bytes);
        copy.copy_from_host(all.data(), bytes);
      }
    };
    copied(operations_, operations), copied(constants_, constants);
    return {static_cast<const RuleOperation*>(operations_.data()),
            static_cast<const Constant*>(constants_.data())};
  }

 private:
  mutable std::mutex mutex_;
  mutable Buffer operations_, constants_;
};

}  // namespace crosstalk
