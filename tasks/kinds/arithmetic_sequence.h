// arithmetic: parity, and modular arithmetic without and with brackets (Deletang et al. 2023, arXiv 2207.02098; as Grazzi et
// al. 2024, arXiv 2411.12537, train it).
//
// parity:    bits x_1 .. x_s, s uniform in shortest .. longest; the answer, x_1 + .. + x_s modulo 2, is due at the last bit.
// flat:      digit op digit op .. digit =, op one of + - *, of which * binds tighter; s operands. Due at "=".
// brackets:  an expression of s tokens and "=". s = 1: d, 2: -d, 3: (d), 4: (-d), else (left op right), the length of left
//            uniform in 1 .. s - 4. Due at "=".
// prefix:    s operators, each in front of its two operands, and "=". Of the operators that follow one a uniform share belongs to its left operand
//            (Mano of Allen-Zhu 2025, arXiv 2512.17351).
//
// What follows is blank. Dense: due at every bit, or at every operand, of what stands there so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

enum class ArithmeticForm : std::int32_t { parity, flat, brackets, prefix };

struct ArithmeticSpec {
  ArithmeticForm form = ArithmeticForm::parity;
  std::int32_t modulus = 2;
  std::int32_t shortest = 1, longest = 1;  ///< s
  bool times = true;                       ///< whether * occurs
  bool dense = false;

  // Ids: blank, then digits, then signs.
  CT_HD std::int32_t digit(std::int32_t value) const { return 1 + value; }
  CT_HD std::int32_t sign(std::int32_t i) const { return 1 + modulus + i; }  ///< of "+-*=()"
  CT_HD std::int32_t vocabulary() const {
    return 1 + modulus + (form == ArithmeticForm::parity ? 0 : form == ArithmeticForm::brackets ? 6 : 4);
  }
  CT_HD std::int32_t tokens() const {
    return form == ArithmeticForm::parity   ? longest
           : form == ArithmeticForm::flat   ? 2 * longest
           : form == ArithmeticForm::prefix ? 2 * longest + 2
                                            : longest + 1;
  }
};

namespace arithmetic {

constexpr std::int32_t plus = 0, minus = 1, times = 2, equals = 3, open = 4, close = 5;

CT_HD inline std::int32_t applied(std::int32_t op, std::int32_t a, std::int32_t b, std::int32_t modulus) {
  return op == plus ? (a + b) % modulus : op == minus ? (a - b + modulus) % modulus : a * b % modulus;
}

/// Writes an expression of `size` tokens and returns its value. `work` holds 2 (size + 2) integers: what is still to be
/// written (lengths of expressions; below 0: a sign, or what to do with values), and values.
CT_HD inline std::int32_t write_brackets(RandomStream& random, const ArithmeticSpec& spec, std::int32_t size,
                                         std::int32_t* tokens, std::int32_t* work) {
  std::int32_t *todo = work, *values = work + 2 * size + 4;
  std::int32_t left = 0, known = 0, written = 0;
  const auto sign = [&](std::int32_t i) { tokens[written++] = spec.sign(i); };
  // Below 0: -1 - i writes sign i; -11 - op writes ")" and applies op to the two last values.
  todo[left++] = size;
  while (left > 0) {
    const std::int32_t item = todo[--left];
    if (item <= -11) {
      sign(close);
      const std::int32_t b = values[--known], a = values[--known];
      values[known++] = applied(-11 - item, a, b, spec.modulus);
    } else if (item < 0) {
      sign(-1 - item);
    } else if (item <= 4) {
      const std::int32_t value = draw_below(random, spec.modulus);
      const bool negative = item % 2 == 0, inside = item > 2;
      if (inside) sign(open);
      if (negative) sign(minus);
      tokens[written++] = spec.digit(value);
      if (inside) sign(close);
      values[known++] = negative ? (spec.modulus - value) % spec.modulus : value;
    } else {
      const std::int32_t first = 1 + draw_below(random, item - 4),
                         op = draw_below(random, spec.times ? 3 : 2);
      sign(open);
      todo[left++] = -11 - op;
      todo[left++] = item - 3 - first;
      todo[left++] = -1 - op;
      todo[left++] = first;
    }
  }
  return values[0];
}

/// Writes an expression of `size` operators and returns its value. `work` holds 2 (size + 1) integers: operators of what is still to be written, and
/// values.
CT_HD inline std::int32_t write_prefix(RandomStream& random, const ArithmeticSpec& spec, std::int32_t size,
                                       std::int32_t* tokens, std::int32_t* work) {
  std::int32_t *todo = work, *values = work + size + 1;
  std::int32_t left = 1, known = 0;
  todo[0] = size;
  for (std::int32_t t = 0; t < 2 * size + 1; ++t) {
    const std::int32_t operators = todo[--left];
    if (operators == 0) {
      tokens[t] = spec.digit(draw_below(random, spec.modulus));
      continue;
    }
    tokens[t] = spec.sign(draw_below(random, spec.times ? 3 : 2));
    const std::int32_t first = draw_below(random, operators);
    todo[left++] = operators - 1 - first;
    todo[left++] = first;
  }
  for (std::int32_t t = 2 * size; t >= 0; --t) {
    const std::int32_t op = tokens[t] - spec.sign(0);
    if (op < 0) {
      values[known++] = tokens[t] - spec.digit(0);
      continue;
    }
    const std::int32_t a = values[--known], b = values[--known];
    values[known++] = applied(op, a, b, spec.modulus);
  }
  return values[0];
}

}  // namespace arithmetic

/// [labels | what brackets need]
CT_HD inline std::int32_t arithmetic_scratch_size(const ArithmeticSpec& spec) {
  const bool work = spec.form == ArithmeticForm::brackets || spec.form == ArithmeticForm::prefix;
  return spec.tokens() + (work ? 4 * spec.longest + 8 : 0);
}

CT_HD inline void arithmetic_sequence(const ArithmeticSpec& spec, std::uint64_t data_seed, Split split,
                                      std::uint64_t n, const SequenceView& out, std::int32_t* labels) {
  RandomStream random = sequence_stream(data_seed, split, n);
  const std::int32_t T = out.shape.T,
                     size = spec.shortest + draw_below(random, spec.longest - spec.shortest + 1);
  for (std::int32_t t = 0; t < T; ++t) out.tokens[t] = 0, labels[t] = -1;
  if (spec.form == ArithmeticForm::brackets) {
    labels[size] = arithmetic::write_brackets(random, spec, size, out.tokens, labels + T);
    out.tokens[size] = spec.sign(arithmetic::equals);
  } else if (spec.form == ArithmeticForm::prefix) {
    labels[2 * size + 1] = arithmetic::write_prefix(random, spec, size, out.tokens, labels + T);
    out.tokens[2 * size + 1] = spec.sign(arithmetic::equals);
  } else if (spec.form == ArithmeticForm::parity) {
    std::int32_t sum = 0;
    for (std::int32_t t = 0; t < size; ++t) {
      const std::int32_t x = draw_below(random, spec.modulus);
      sum = (sum + x) % spec.modulus;
      out.tokens[t] = spec.digit(x);
      if (spec.dense || t + 1 == size) labels[t] = sum;
    }
  } else {
    std::int32_t sum = 0, term = 0;  // of terms that have ended; the term that goes on
    std::int32_t op = arithmetic::plus;
    for (std::int32_t i = 0; i < size; ++i) {
      const std::int32_t x = draw_below(random, spec.modulus);
      if (op == arithmetic::times) {
        term = term * x % spec.modulus;
      } else {
        sum = (sum + term) % spec.modulus;
        term = op == arithmetic::plus ? x : (spec.modulus - x) % spec.modulus;
      }
      out.tokens[2 * i] = spec.digit(x);
      if (spec.dense) labels[2 * i] = (sum + term) % spec.modulus;
      const bool last = i + 1 == size;
      op = last ? arithmetic::equals : draw_below(random, spec.times ? 3 : 2);
      out.tokens[2 * i + 1] = spec.sign(op);
      if (last) labels[2 * i + 1] = (sum + term) % spec.modulus;
    }
  }
  put_labels(out, labels, T);
}

}  // namespace crosstalk
