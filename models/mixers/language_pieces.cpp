// The language model in pieces of a sequence, each of which goes on from what the one before has left.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/elementwise/elementwise.h"
#include "models/engines.h"
#include "models/graph/passes.h"
#include "models/mixers/language_model.h"
#include "models/parts/carried.h"
#include "models/parts/parts.h"
#include "models/parts/tokens.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {
namespace {

class Refusals {
 public:
  Refusals(const PieceUse& use, int piece)
      : option_(use.option), asked_(fmt::format("{} = {}", use.option, use.value > 0 ? use.value : piece)) {}

  [[noreturn]] void refuse(const std::string& why) const {
    const bool whole = option_ == "eval.piece";
    fail(fmt::format("{}; leave it out, and {}", why,
                     whole ? "sequences are read whole" : "every window begins without a past"));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw OptionError(option_, fmt::format("{} {}", asked_, why));
  }

 private:
  std::string option_, asked_;
};

// Checks what is known without building anything.
void check_pieces(const Options& options, const std::vector<LanguageLayer>& layers, int piece,
                  const PieceUse& use) {
  const Refusals refusals(use, piece);
  if (options.get_string("model.positions") != "none")
    refusals.refuse(fmt::format(
        "is for sequences of any length, model.positions = \"{}\" for those up to model.max_length",
        options.get_string("model.positions")));
  if (options.get_string("model.decoder") != "none")
    refusals.refuse(fmt::format(
        "reads answers where they are due, model.decoder = \"{}\" all of them behind the last token",
        options.get_string("model.decoder")));
  for (const LanguageLayer& layer : layers) {
    if (layer.conv) continue;
    const Options& own = layer.options;
    const Memory& memory = memory_of(own);
    if (memory.states.empty() && memory.name != "sliding_window")  // which hands on its last keys and values
      refusals.refuse(fmt::format(
          "wants a memory that hands its state from one piece to the next, and {} has none: it reads all tokens before (those of a "
          "window alone are handed on: sliding_window)",
          memory.name));
    if (own.has("memory.mini_batch") && piece % own.get_int("memory.mini_batch") != 0)
      refusals.fail(fmt::format("cuts mini-batches of memory.mini_batch = {} tokens; give a multiple of it{}",
                                own.get_int("memory.mini_batch"),
                                use.option == "eval.piece" ? "" : " as task.length"));
    if (own.get_bool("model.rotary") && own.has("memory.writes") && own.get_int("memory.writes") > 1)
      refusals.refuse("does not go with several writes a token that are turned (model.rotary)");
  }
}

}  // namespace

template <class Real>
Var<Real> Carried<Real>::token_before(const std::string& name, Var<Real> x) {
  const Var<Real> before = delayed(x, start(*x.graph, name));
  end(name, last_token(x));
  return before;
}

template <class Real>
Variable<Real>* carried_conv(Graph<Real>& graph, Carried<Real>& carried, const std::string& name,
                             Variable<Real>* x, Variable<Real>* w, bool silu, Variable<Real>* bias,
                             Variable<Real>* gate) {
  const Size B(x->value.dim(0)), T(x->value.dim(1)), C(x->value.dim(2)), W(w->value.dim(1));
  const auto rows = [&](Variable<Real>* v) { return Var<Real>{&graph, graph.view(v, {B, T, 1, C})}; };
  const auto tap = [&](int i) {  // of the token i before, a number a channel
    Constant<Real> one;
    one.y.value = shaped<Real>(graph.replicas(), {1, 1, 1, W});
    one.number[W - 1 - i] = 1;
    const Var<Real> chosen{&graph, out(graph.add(one).y)};
    return view(fold(Var<Real>{&graph, graph.view(w, {1, 1, C, W})} * chosen, {1, 1, C, 1}), {1, 1, 1, C});
  };
  Var<Real> token = rows(x), u = tap(0) * token;
  for (int i = 1; i < W; ++i) {
    token = carried.token_before(fmt::format("{}.{}", name, i), token);
    u = u + tap(i) * token;
  }
  if (bias) u = u + Var<Real>{&graph, graph.view(bias, {1, 1, 1, C})};
  if (gate) u = u * rows(gate) + rows(x);
  if (silu) u = map(MapKind::silu, u);
  return graph.view(u.variable, {B, T, C});
}

template <class Real>
void PieceGraphs<Real>::hand_on(const Exec& exec, bool of_first) const {
  for (const Hand& hand : hands) {
    Map<Real> copy;
    copy.x.value = (of_first ? hand.of_first : hand.of_next)->value;
    copy.y.value = copy.x.value;
    copy.y.value.data = hand.to->value.data, copy.y.value.replica_stride = hand.to->value.replica_stride;
    forward(exec, copy);
  }
}

template <class Real>
void LanguageModel<Real>::make_starts(ModelGraph<Real>& target, const Piece& piece) {
  if (piece.before == nullptr) return;
  Graph<Real>& g = target.graph;
  const int B = target.batch.B;
  Tensor<std::int32_t>* places = g.integers({B, target.batch.T});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Carried<Real>& layer = (*piece.carried)[i];
    layer.places = places;
    for (const auto& [name, end] : (*piece.before)[i].ends) {
      const Tensor<Real>& left = end->value;
      const int H = narrow<int>(heads_of(layers_[i].options), "model.heads");
      const Size n(left.size() / (std::int64_t{B} * H));
      // Shape as apply gives it to memories; what convolutions and shifts hand on has no heads.
      const bool as_left = name == "S" || (left.rank == 4 && left.dim(1) == 1 && left.dim(2) == 1);
      g.keep(layer.starts[name] = as_left ? g.tensor(left, false) : g.variable({B, 1, H, n}, false));
    }
  }
}

template <class Real>
std::unique_ptr<PieceGraphs<Real>> LanguageModel<Real>::pieces(int B, SequenceShape shape,
                                                               const PieceUse& use) {
  check_pieces(options_, layers_, shape.T, use);
  auto result = std::make_unique<PieceGraphs<Real>>();
  std::vector<Carried<Real>> first(layers_.size()), next(layers_.size());
  for (auto* carried : {&first, &next})
    for (Carried<Real>& layer : *carried) layer.parts = true;
  result->first = build(B, shape, use.train, 1, nullptr, {.carried = &first});
  result->next = build(B, shape, use.train, use.batches, nullptr, {.carried = &next, .before = &first});
  result->places = next[0].places;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    for (const auto& [name, of_first] : first[i].ends) {
      if (next[i].asked.count(name) == 0)
        Refusals(use, shape.T)
            .refuse(fmt::format(
                "wants a memory that goes on from all that it holds, and {} does not take its {} back",
                memory_of(layers_[i].options).name, name));
      result->hands.push_back({of_first, next[i].ends.at(name), next[i].starts.at(name)});
    }
  for (auto* graph : {result->first.get(), result->next.get()}) {
    run_passes(graph->graph);
    graph->graph.plan();
  }
  return result;
}

#define CROSSTALK_PIECES(Real)                                                                             \
  template struct Carried<Real>;                                                                           \
  template struct PieceGraphs<Real>;                                                                       \
  template Variable<Real>* carried_conv(Graph<Real>&, Carried<Real>&, const std::string&, Variable<Real>*, \
                                        Variable<Real>*, bool, Variable<Real>*, Variable<Real>*);          \
  template void LanguageModel<Real>::make_starts(ModelGraph<Real>&, const Piece&);                         \
  template std::unique_ptr<PieceGraphs<Real>> LanguageModel<Real>::pieces(int, SequenceShape,              \
                                                                          const PieceUse&);
CROSSTALK_PIECES(float)
CROSSTALK_PIECES(double)

}  // namespace crosstalk
