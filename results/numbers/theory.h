// What no memory of a kind can do better than: losses that are theorems for a task, a protocol and a memory,
// computed for their numbers. The only place where these formulas stand; figures, records and `describe` use
// them. A run that they say nothing about gets nothing.
//
// Rank bound. Reads through d = d_dot features form a matrix (values x queries of a sequence) of rank d,
// since y_j = W phi(q_j) c_j with one W a sequence. The targets are one-hot columns t_j with weights w_j in
// the mean that is reported, so T diag(w) T^T is diagonal: c_u = sum of w_j over the queries whose value is
// u. By Eckart and Young (1936)
//
//     loss >= 0.5 (sum of all c_u but the d largest) / (sum of w)
//
// recall: values are distinct, so c_u = w_j: 0.5 (1 - d/S) where all queries weigh the same. With the
// protocol schlag2021 they do not (chunks of train.batch queries, the last one shorter, at most 200 queries).
// reassign: the D distinct keys that occur are asked, and values drawn with replacement coincide; the mean
// over sequences is taken by simulation, always with the same random numbers.
//
// Sum-rule floor. A memory that does not see the order of writes knows of a key that was written m times only
// which m values it got, each of them the last one with equal chance. The best answer is their mean:
//
//     loss >= 0.5 (1 - E[1/m]) (1 - 1/values)
//
// for values drawn with replacement.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// What memories say of themselves (models/memories/), which results/ never see: the program hands it over, by name.
struct MemoryFacts {
  std::set<std::string> bounded_by_rank;  ///< reads through d_dot features: y_j = W x_j c_j, one W a sequence
  std::set<std::string> order_free;       ///< does not see the order of writes
  /// Whether the law of such a run (memory.name = "rule") is bounded by rank; empty: none is.
  std::function<bool(const Record&)> is_bounded_law = {};
  std::map<std::string, std::string> families = {};  ///< memory -> what tables list it under
};

/// Queries of a sequence that the protocol schlag2021 asks at most, as the released code does.
inline constexpr int schlag_max_queries = 200;

/// The rank bound of a run; nothing where it is no theorem (swap, softmax, unknown memories,
/// a gate, a bias or a function on what is read).
std::optional<double> rank_bound(const Record& record, const MemoryFacts& facts);
/// The same for a run that differs in its load: the vocabulary and lengths that follow from the load by
/// default are taken to follow.
std::optional<double> rank_bound_at(const Record& record, double load, const MemoryFacts& facts);

/// The largest load whose rank bound is at most `loss`, at most 64 d_dot; nothing where there is no bound, or
/// none up to there.
std::optional<double> rank_capacity(const Record& record, double loss, const MemoryFacts& facts);

/// The floor of a run whose memory does not see the order of writes, on task reassign; else nothing.
std::optional<double> sum_rule_floor(const Record& record, const MemoryFacts& facts);
std::optional<double> sum_rule_floor_at(const Record& record, double load, const MemoryFacts& facts);

/// 0.5 (1 - sum of the d largest weights / sum), for the squared singular values `weights` of the targets.
double rank_bound_of(std::vector<double> weights, std::int64_t d);

}  // namespace crosstalk
