// SPDX-License-Identifier: Apache-2.0
#include "models/graph/slow_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kernels/attention/attend.h"
#include "kernels/attention/solve.h"
#include "kernels/base/form.h"
#include "kernels/conv/long_conv.h"
#include "kernels/law/diagonal_read.h"
#include "kernels/law/fwm.h"
#include "kernels/law/network_read.h"
#include "kernels/law/ridge_read.h"
#include "kernels/recurrence/read_weights.h"
#include "kernels/recurrence/state_read.h"

namespace crosstalk {
namespace {

template <class Real>
constexpr bool kWide = sizeof(Real) > sizeof(float);
constexpr const char* kInFp64 = "numbers are fp64";

constexpr const char* kTooLittle =
    "this GPU has too little shared memory for it, or one variable is several of its inputs";

/// Of an op whose sizes forms would take.
template <class Op>
std::string without_form() {
  return known_forms<Op>().empty()
             ? "this program is without its faster forms (kernels/fused, CROSSTALK_WITHOUT_FORMS)"
             : kTooLittle;
}

std::string above(int size, const char* what, int most) {
  return fmt::format("{} {} a head are more than {}", size, what, most);
}

/// Chunks: kernels/recurrence/state_chunk_cuda.cu.
template <class Real>
std::string slow_form(const StateRead<Real>& op) {
  constexpr int kMost = 128;
  const std::string why =
      op.form == StateForm::recurrent
          ? "memory.form asks for it, or every row of the state fades at a rate of its own"
      : kWide<Real>            ? kInFp64
      : op.V() > kMost         ? above(op.V(), "values", kMost)
      : op.key_block() > kMost ? above(op.K(), "key channels", kMost) + " where the state erases"
      : op.writes * (op.erase == Erase::free ? 2 : 1) > op.chunk_rows()
          ? fmt::format("the {} writes of a token are more than a chunk has", op.writes)
      : op.form_name(Device::cuda) == std::string("recurrent") ? kTooLittle
                                                               : "";
  return why.empty() ? "" : "state_read walks token after token: " + why;
}

/// Chunks: kernels/fused/fwm_chunk_form.cu. States in registers: fwm_walk_form.cu.
template <class Real>
std::string slow_form(const FwmRead<Real>& op) {
  const bool dense = static_cast<bool>(op.v);
  const int kMostKeys = dense ? 64 : 128, kMostValues = dense ? 64 : 256;
  if (op.form) return "";
  return "fwm_read walks token after token, its states in global memory: " +
         (kWide<Real> ? kInFp64
          : !dense && (op.H() != 1 || op.Q() != 1)
              ? "chunks of values that are ids are of one head and one query"
          : op.K() > kMostKeys   ? above(op.K(), "key features", kMostKeys)
          : op.V() > kMostValues ? above(op.V(), "values", kMostValues)
          : dense                ? without_form<FwmRead<Real>>()
          : op.K() % 4 != 0      ? fmt::format("{} key features are no multiple of 4", op.K())
          : op.start || op.end   ? "a state is given or wanted"
                                 : "this GPU has too little shared memory for its chunks");
}

/// Chunks: kernels/fused/read_weights_chunk_form.cu.
template <class Real>
std::string slow_form(const ReadWeights<Real>& op) {
  constexpr int kMost = 512;
  if (op.form) return "";
  return "read_weights walks write after write: " +
         (op.log_decay && op.log_decay.value.dim(3) > 1
              ? "chunks of decays a key channel are of tokens in equal parts of 32 to 128, and queries at most of them"
          : op.decay || op.log_decay   ? "chunks have no decay"
          : op.H() != 1 || op.Q() != 1 ? "chunks are of one head and one query"
          : op.K() > kMost             ? above(op.K(), "key features", kMost)
          : op.K() % 4 != 0            ? fmt::format("{} key features are no multiple of 4", op.K())
          : op.erase == Erase::none    ? "chunks are of states that erase"
                                       : "chunks are of keys that erase themselves, and fit shared memory");
}

/// States in registers: kernels/fused/network_walk_form.cu. Mini-batches: network_batches_form.cu.
template <class Real>
std::string slow_form(const NetworkRead<Real>& op) {
  constexpr int kMost = 64, kMostBatch = 16, kFewest = 4;
  const bool deep = op.hidden > 0, whole = op.K() % 4 == 0 && op.V() % 4 == 0 && op.hidden % 4 == 0;
  if (op.form)
    return deep && op.mini_batch < kFewest
               ? fmt::format(
                     "network_read goes through all weights of its network for every mini-batch of {}: with "
                     "memory.mini_batch = 16, as its authors have it (another model), a step is several times faster",
                     op.mini_batch == 1 ? "one token" : fmt::format("{} tokens", op.mini_batch))
               : "";
  return "network_read keeps its states in global memory: " +
         (kWide<Real> ? kInFp64
          : deep && op.mini_batch > kMostBatch
              ? fmt::format("mini-batches of a network with hidden units have more than {} tokens",
                            kMostBatch)
          : deep && !whole              ? "numbers of keys, values and hidden units are no multiples of 4"
          : !deep && op.mini_batch != 1 ? fmt::format("mini-batches are of {} tokens", op.mini_batch)
          : !deep && op.K() > kMost     ? above(op.K(), "key channels", kMost)
          : !deep && op.V() > kMost     ? above(op.V(), "values", kMost)
                                        : without_form<NetworkRead<Real>>());
}

/// No form but the plain one: kernels/conv/long_conv.h.
template <class Real>
std::string slow_form(const LongConv<Real>& op) {
  constexpr double kMany = 2e10;  // products: tens of milliseconds
  const double channels = static_cast<double>(op.B()) * op.C(), products = channels * op.T() * op.T() / 2;
  return products < kMany ? ""
                          : fmt::format("long_conv adds up {0}^2 / 2 products of each of {1:.0f} channels",
                                        op.T(), channels);
}

/// Chunks: kernels/fused/ridge_chunk_form.cu.
template <class Real>
std::string slow_form(const RidgeRead<Real>& op) {
  constexpr int kMostKeys = 128, kMostValues = 128;
  if (op.form) return "";
  return "ridge_read walks token after token: " +
         (kWide<Real>            ? kInFp64
          : op.K() > kMostKeys   ? above(op.K(), "key channels", kMostKeys)
          : op.V() > kMostValues ? above(op.V(), "values", kMostValues)
                                 : without_form<RidgeRead<Real>>());
}

/// States in registers: kernels/fused/diagonal_registers_form.cu.
template <class Real>
std::string slow_form(const DiagonalRead<Real>& op) {
  constexpr int kMost = 128;
  if (op.form) return "";
  return "diagonal_read keeps its states in global memory: " +
         (kWide<Real>               ? kInFp64
          : op.K() > kMost          ? above(op.K(), "key channels", kMost)
          : op.position && op.start ? "a state is given, and queries stand beside the sequence"
                                    : without_form<DiagonalRead<Real>>());
}

/// Tiles: kernels/attention/attend_mix.h. Weights of few queries are small.
template <class Real>
std::string slow_form(const Attend<Real>& op) {
  constexpr int kFewest = 16, kMost = 128;
  if (op.kernel != Kernel::exp || op.extra || !op.k || op.Q() < kFewest) return "";
  if (!kWide<Real> && op.K() <= kMost) return "";
  return fmt::format("attend keeps all {} x {} weights of a head: {}", op.Q(), op.T(),
                     kWide<Real> ? kInFp64 : above(op.K(), "key channels", kMost));
}

/// Tiles of read_weights make the same weights: kernels/fused/read_weights_tiles_form.cu.
template <class Real>
std::string slow_form(const Solve<Real>& op) {
  constexpr int kTile = 64;
  if (op.T() <= kTile) return "";
  return fmt::format(
      "solve goes through all {} x {} pairs of tokens: {}", op.T(), op.T(),
      kWide<Real> ? kInFp64 : "tiles are of products in bf16 and keys of up to 64 channels, a multiple of 4");
}

}  // namespace

template <class Real>
std::vector<std::string> slow_forms(const Graph<Real>& graph) {
  std::vector<std::string> all;
  const auto ask = [&]<template <class> class Op>(const std::any& info) {
    const auto* op = std::any_cast<std::shared_ptr<const Op<Real>>>(&info);
    if (!op) return;
    const std::string sentence = slow_form(**op);
    if (!sentence.empty() && std::find(all.begin(), all.end(), sentence) == all.end())
      all.push_back(sentence);
  };
  for (const auto& node : graph.nodes()) {
    ask.template operator()<StateRead>(node.info);
    ask.template operator()<FwmRead>(node.info);
    ask.template operator()<ReadWeights>(node.info);
    ask.template operator()<Attend>(node.info);
    ask.template operator()<Solve>(node.info);
    ask.template operator()<NetworkRead>(node.info);
    ask.template operator()<LongConv>(node.info);
    ask.template operator()<RidgeRead>(node.info);
    ask.template operator()<DiagonalRead>(node.info);
  }
  return all;
}

template std::vector<std::string> slow_forms(const Graph<float>&);
template std::vector<std::string> slow_forms(const Graph<double>&);

}  // namespace crosstalk
