// An op each of whose elements is worked out alone: one text for the CPU and for CUDA. It says which of its functions run, and
// over how many elements of a replica:
//
//   CROSSTALK_SWEEP(y.value.size(), take)               // forward calls take(r, i) for element i
//   CROSSTALK_SWEEP_BACK(x, x.value.size(), give_back)  // backward likewise, if x wants a gradient; none: there is none
//
// or, of several functions, CROSSTALK_ELEMENT(take) for each, and sweep_forward(sweep) and sweep_backward(sweep), which call
// sweep(elements, take_of{}). An op of recurrences says channels() instead: a tensor of the shape [R,B,T,N], whose channels walk
// through the tokens, each alone (walk_channels()); one that says is_plain() has a kernel in which what make_plain() fixes is known
// (each.cuh). Behind the op stands CROSSTALK_SWEPT(Delay), of which the build makes its versions (kernels/CMakeLists.txt):
// CROSSTALK_SWEEPS(cpu, Delay) (sweep_cpu.h) and CROSSTALK_SWEEPS(cuda, Delay) (each.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "kernels/base/op.h"
#include "kernels/base/put.h"

namespace crosstalk {

/// Names a function of one element by a type, since nvcc takes no pointers to members in the names of kernels.
#define CROSSTALK_ELEMENT(function)                               \
  struct function##_of {                                          \
    template <class Op>                                           \
    CT_HD static void call(const Op& op, int r, std::int64_t i) { \
      op.function(r, i);                                          \
    }                                                             \
  };

#define CROSSTALK_SWEEP(elements, function)      \
  CROSSTALK_ELEMENT(function)                    \
  template <class Sweep>                         \
  void sweep_forward(const Sweep& sweep) const { \
    sweep(elements, function##_of{});            \
  }
#define CROSSTALK_SWEEP_BACK(input, elements, function)   \
  CROSSTALK_ELEMENT(function)                             \
  template <class Sweep>                                  \
  void sweep_backward(const Sweep& sweep) const {         \
    if (input.wanted()) sweep(elements, function##_of{}); \
  }

/// Number i of a gradient that is added to, else 0.
template <class Real>
CT_HD inline Real held(const In<Real>& in, int r, std::int64_t i) {
  return in.write == Write::add ? in.gradient.at(r)[i] : Real(0);
}

/// True if `first`, which is written before, may be the same variable as `in`, which is then added to what that wrote.
template <class Real>
CT_HD inline bool written_by(const In<Real>& first, const In<Real>& in) {
  return first.wanted() && in.write == Write::add && first.gradient.data == in.gradient.data;
}

/// What a number that was `old` gets.
template <class Number>
CT_HD inline Number joined(Write mode, Number old, Number value) {
  return mode == Write::add ? old + value : value;
}

/// A walk of kSide neighbours among the channels, the i-th of a replica, forward or backward in time. The op's begin(r, first) is
/// the state in front of the first token, made(r, at) that behind the token where the channel's number is `at`. What memory has
/// of a token, token() and token_back() take, of kAhead tokens at once and, of more than one, while those before are walked. What a
/// gradient held before belongs to it, too, since a load waits for stores before it; where an earlier field of the op may have
/// written it since (written_by()) it is read again. step() and step_back() carry a Carried from token to token; finish() gets what
/// is carried out of the first.
template <int kSide, int kAhead, bool kBack, class Op>
CT_HD void walk_channels(const Op& op, int r, std::int64_t i) {
  const int T = op.channels().dim(1), N = op.channels().dim(2), strips = (N + kSide - 1) / kSide;
  const std::int64_t b = i / strips, c = i % strips * kSide, first = b * N + c, start = b * T * N + c;
  const int count = kSide == 1 || N - c >= kSide ? kSide : static_cast<int>(N - c);
  const auto at = [&](int t, int n) { return start + static_cast<std::int64_t>(t) * N + n; };
  using Token = std::conditional_t<kBack, typename Op::TokenBack, typename Op::Token>;
  typename Op::Carried carried[kSide] = {}, begun[kSide];
  for (int n = 0; n < count; ++n) {
    begun[n] = op.begin(r, first + n);
    if (!kBack) carried[n] = begun[n];
  }
  const auto take = [&](int turn, Token(&tokens)[kAhead][kSide]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int ahead = 0; ahead < kAhead; ++ahead) {  // of some token where there are no more
      const int there = turn + ahead < T ? turn + ahead : T - 1, t = kBack ? T - 1 - there : there;
      for (int n = 0; n < count; ++n) {
        if constexpr (kBack) {
          const auto made = op.made(r, at(t > 0 ? t - 1 : 0, n));
          tokens[ahead][n] = op.token_back(r, at(t, n), t > 0 ? made : begun[n]);
        } else {
          tokens[ahead][n] = op.token(r, at(t, n));
        }
      }
    }
  };
  constexpr bool kTurns = kAhead > 1;  // the next tokens are on their way while some are walked
  Token tokens[kAhead][kSide];
  [[maybe_unused]] Token next[kAhead][kSide];
  if (kTurns && T > 0) take(0, next);
  for (int turn = 0; turn < T; turn += kAhead) {
    if constexpr (kTurns) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int ahead = 0; ahead < kAhead; ++ahead)
        for (int n = 0; n < kSide; ++n) tokens[ahead][n] = next[ahead][n];
      take(turn + kAhead, next);
    } else {
      take(turn, tokens);
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int t = kBack ? T - 1 - turn - ahead : turn + ahead;
      for (int n = 0; n < count && turn + ahead < T; ++n)
        if constexpr (kBack)
          op.step_back(r, at(t, n), tokens[ahead][n], carried[n]);
        else
          op.step(r, at(t, n), tokens[ahead][n], carried[n]);
    }
  }
  for (int n = 0; n < count && kBack; ++n) op.finish(r, first + n, carried[n]);
}

/// Declares the versions of an op, as CROSSTALK_OP, and lets the build make them.
#define CROSSTALK_SWEPT(Op) CROSSTALK_OP(Op)

#define CROSSTALK_SWEEPS(device, Op)                                              \
  template <class Real>                                                           \
  void forward_##device(const Exec& exec, const Op<Real>& op) {                   \
    if constexpr (requires { op.channels(); })                                    \
      device##_walk<false>(exec, op);                                             \
    else                                                                          \
      op.sweep_forward(device##_sweep(exec, op));                                 \
  }                                                                               \
  template <class Real>                                                           \
  void backward_##device([[maybe_unused]] const Exec& exec, const Op<Real>& op) { \
    if constexpr (requires { op.channels(); })                                    \
      device##_walk<true>(exec, op);                                              \
    else if constexpr (!without_gradient<Op<Real>>)                               \
      op.sweep_backward(device##_sweep(exec, op));                                \
  }                                                                               \
  CROSSTALK_INSTANTIATE(device, Op)

template <class Op>
concept without_gradient = requires {
  Op::kWithoutGradient;
};

}  // namespace crosstalk
