// Which engine the states of a law come to.
//
// A vector whose step is a * z + x entry by entry is a scan. A matrix whose step is
//   S' = Diag(l) S Diag(a) - e (S'' x) y^T + w v k^T
// is a Recurrence (models/engines.h). Beside a matrix, a vector of another step of its own is walked alone, token after token. All else
// has a reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/rules/law.h"

namespace crosstalk::rules {

/// Least and greatest value of any entry, as far as the operations say.
struct Bounds {
  double low, high;
};
Bounds bounds_of(Value root);
/// The same, seeing what inputs of a memory are made of.
Bounds bounds_of(Law& law, Value root);
/// Bounds of the factor by which a step keeps what a state holds, but for directions that it erases; none where it is not linear.
std::optional<Bounds> kept_of(Value step, Value state);

/// h_t = factor h_{t-1} + addend.
struct ScanPlan {
  Value factor = nullptr, addend = nullptr;  ///< addend nullptr: 0
};

/// Fields of a Recurrence; nullptr: absent.
struct RecurrencePlan {
  enum class Erase { none, delta, tied, free } erase = Erase::none;
  Value key = nullptr, value = nullptr, gain = nullptr;
  Value kept = nullptr;  ///< the decay as the law has it
  Value log_decay = nullptr, decay = nullptr, value_log_decay = nullptr, sign = nullptr;
  Value erase_read = nullptr, erase_write = nullptr, erase_gain = nullptr;
  /// Further writes of a token, each of which erases along its key by its gain as the first does.
  struct Write {
    Value key = nullptr, value = nullptr, gain = nullptr;
  };
  std::vector<Write> more = {};
  bool decayed = true;
  bool contracting = false;  ///< where keys are normalised
  bool shrinks = false;      ///< contracting whatever the keys: gains are x / (1 + x |k|^2)
};

struct StatePlan {
  std::string name;
  std::optional<ScanPlan> scan = {};
  bool walked = false;  ///< a vector that no other state takes part in, token after token
  std::optional<RecurrencePlan> recurrence = {};
  bool transposed = false;  ///< the recurrence is that of its transpose, which the reading asks
  std::string reason = {};  ///< why it is neither
};

/// A product of a state with a vector, which the reading asks for. Nodes of kind input called `name` stand
/// for it.
struct Asked {
  std::string name, state;
  Value query;
  Value query_beside = nullptr;
  /// The state z of a sum: reads are divided by z.q + eps, or by max(|z.q|, 1) where there is no eps.
  std::string sum = {};
  std::optional<double> eps = {};
  Value log_gain = nullptr;  ///< where there is no eps
};

/// Parts of states that are asked, and the reading over them.
struct Reading {
  std::vector<Asked> asked;
  Value after = nullptr;
};

struct Plan {
  std::vector<StatePlan> states;  ///< in the order of the law: scans first
  std::vector<Asked> asked;
  Value after = nullptr;  ///< the reading over what was asked for
  /// The reading before the step, where queries stand beside the sequence: they have no token, k, v and token are 0.
  Value after_beside = nullptr;
  /// The same with quotients as one read, which engines have for a recurrence and the sum of its keys: for graphs in which
  /// states neither come in nor go out.
  std::optional<Reading> divided;
  /// A state is the transpose of what the engines keep: where states come in or go out, the law runs token after token.
  bool transposed = false;
  std::string reason;  ///< why the law is not lowered: state and reason; "" where it is
};

/// What a vector is at a token stands in the plan as a node of kind input, called NAME.now; what one that is walked was at the token
/// before, NAME.before.
Plan recognise(Law& law);
std::string now_name(const std::string& state);
std::string before_name(const std::string& state);

}  // namespace crosstalk::rules
