// The table of doors, and forms of a recurrence by their names (engines.h).
// SPDX-License-Identifier: Apache-2.0
#include "models/engine_doors.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace crosstalk {
namespace {

using Facts = const ReadFacts&;

struct Row {
  DoorOf to;
  bool (*covers)(Facts);
  bool (*pays)(Facts);  ///< where nobody asks for a form, rows above excepted
};

bool always(Facts) { return true; }
bool never(Facts) { return false; }
bool is_one_state(Facts f) { return !f.kind.value_decay; }
bool has_weights(Facts f) { return f.own_heads && !f.kind.value_decay && !f.between_tokens; }
bool is_plain(Facts f) { return has_weights(f) && f.is_plain(); }
bool has_pairs(Facts f) {
  return has_weights(f) && !f.kind.channel_decay && !f.kind.several_writes && f.kind.erase != Erase::free;
}
bool from_weights(Facts f) { return f.from_weights; }
/// A CPU walks from token to token, but for reads from weights.
bool on_cpu(Facts f) { return !f.cuda && !(f.from_weights && f.own_heads); }

/// Tokens of a sequence from which a GPU takes less time in chunks than by all pairs; 0: not measured. Crossings of the two forms'
/// times, forward and backward, at 16,384 and 65,536 tokens of an H200 (benchmarks/README.md, "Short sequences"); 65: between 64
/// and 128 tokens.
int fewest_tokens_in_chunks(Facts f) {
  struct Crossing {
    int size, sums_bf16, erases_bf16, sums, erases;
  };
  static constexpr Crossing kMeasured[] = {
      {32, 16, 16, 16, 16}, {64, 16, 16, 65, 48}, {128, 64, 32, 256, 65}};
  const bool erases = f.kind.erase != Erase::none;
  for (const Crossing& at : kMeasured) {
    if (std::max(f.K, f.V) > at.size) continue;
    if (f.products == Precision::bf16) return erases ? at.erases_bf16 : at.sums_bf16;
    return erases ? at.erases : at.sums;
  }
  return 0;
}

/// All pairs take less time than chunks: sequences are short, or chunks do not hold the keys of a state that erases, as long as the
/// weights are some hundred megabytes.
bool pairs_pay(Facts f) {
  constexpr std::int64_t kMostPairs = std::int64_t{1} << 27;
  const bool erases = f.kind.erase != Erase::none;
  if (f.single && erases && f.K > kMostInChunks && f.B * f.H * f.T * f.T <= kMostPairs) return true;
  // A weight of a read costs K + V, a token's step of the state K V. Crossings were measured with queries at all tokens.
  const bool few = !erases && f.Q * (f.K + f.V) <= f.K * f.V;
  if (few && f.Q < f.T) return true;
  const int fewest = f.single ? fewest_tokens_in_chunks(f) : 0;
  return fewest > 0 ? f.T < fewest : few || f.T <= f.chunk;
}

/// Sums of a GPU that begin at 0 and that nobody wants at the end.
bool has_key_sum(Facts f) {
  return f.of_ones && f.cuda && f.single && f.own_heads && f.kind.erase == Erase::none &&
         !f.kind.several_writes && !f.before && !f.keeps;
}
bool has_registers(Facts f) {
  return f.kind.value_decay && f.cuda && !f.before && !f.kind.several_writes && f.has_form();
}
/// What is written is read without weights of it in memory, where heads are too wide for chunks.
bool is_written(Facts f) {
  return has_pairs(f) && f.kind.erase != Erase::none && f.K > kMostInChunks && !f.starts && !f.divided;
}
bool has_delta_values(Facts f) {
  return is_written(f) && f.kind.erase == Erase::delta && f.cuda && f.products == Precision::bf16 &&
         f.gained && !f.decays && f.has_form();
}

/// Doors of a read, in the order in which they are tried.
constexpr Row kReads[] = {{{Door::registers, Form::recurrent}, has_registers, always},
                          {{Door::rows, Form::recurrent}, [](Facts f) { return f.kind.value_decay; }, always},
                          {{Door::rows, Form::chunk}, [](Facts f) { return f.kind.value_decay; }, never},
                          {{Door::walk, Form::recurrent}, is_one_state, on_cpu},
                          {{Door::scores, Form::query}, is_plain, from_weights},
                          {{Door::query, Form::query}, has_weights, from_weights},
                          {{Door::delta_values, Form::parallel}, has_delta_values, pairs_pay},
                          {{Door::solve_values, Form::parallel}, is_written, pairs_pay},
                          {{Door::pairs, Form::parallel}, has_pairs, pairs_pay},
                          {{Door::key_sum, Form::chunk}, has_key_sum, always},
                          {{Door::chunks, Form::chunk}, is_one_state, always}};

/// A GPU has many queries, whose weights are products of matrices.
bool by_products(Facts f) { return f.cuda && (f.at_tokens || 4 * f.Q >= f.T) && !f.from_weights; }

/// Doors of weights [B,H,Q,M], in that order too.
constexpr Row kWeights[] = {
    {{Door::tiles, Form::query}, [](Facts f) { return has_pairs(f) && f.has_form(); }, by_products},
    {{Door::pairs, Form::query}, has_pairs, by_products},
    {{Door::one_hot, Form::query},
     [](Facts f) {
       return f.single && f.kind.erase == Erase::none && !f.kind.several_writes &&
              f.T / cuts_of_values(f, f.T) <= kMostInChunks;
     },
     by_products},
    {{Door::scores, Form::query}, is_plain, always},
    {{Door::query, Form::query}, always, always}};

}  // namespace

const DoorOf* door_of_read(const ReadFacts& f) {
  // Queries between tokens are read from states.
  const bool states = f.between_tokens && (f.asked == Form::query || f.asked == Form::parallel);
  const Form asked = states ? Form::chunk : f.asked;
  const auto row = std::find_if(std::begin(kReads), std::end(kReads), [&](const Row& one) {
    return (asked == Form::automatic ? one.pays(f) : one.to.form == asked) && one.covers(f);
  });
  return row == std::end(kReads) ? nullptr : &row->to;
}

Door door_of_weights(const ReadFacts& f) {
  return std::find_if(std::begin(kWeights), std::end(kWeights),
                      [&](const Row& one) { return one.pays(f) && one.covers(f); })
      ->to.door;
}

int cuts_of_values(const ReadFacts& f, std::int64_t V) {
  constexpr int kFewest = 32;
  const bool chunks = f.cuda && f.single && (f.kind.erase == Erase::none || f.K <= kMostInChunks);
  if (chunks && (f.K == 32 || f.K == 64) && V > f.K && V % f.K == 0 && V <= 4 * f.K)
    return static_cast<int>(V / f.K);
  std::int64_t cuts = chunks ? (V + kMostInChunks - 1) / kMostInChunks : 1;
  while (V % cuts != 0) ++cuts;
  return V / cuts < kFewest ? 1 : static_cast<int>(cuts);
}

bool covers(Form form, const RecurrenceKind& kind) {
  return std::any_of(std::begin(kReads), std::end(kReads),
                     [&](const Row& row) { return row.to.form == form && row.covers({.kind = kind}); });
}

const std::vector<std::string>& form_names() {
  static const std::vector<std::string> names = {"automatic", "query", "parallel", "chunk", "recurrent"};
  return names;
}
const char* name_of(Form form) { return form_names()[static_cast<std::size_t>(form)].c_str(); }
Form form_of(const std::string& name) {
  for (std::size_t i = 0; i < form_names().size(); ++i)
    if (form_names()[i] == name) return static_cast<Form>(i);
  throw std::logic_error("[engines] there is no form " + name);
}

}  // namespace crosstalk
