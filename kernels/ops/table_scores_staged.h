// Scores from table rows with whole tables in shared memory: the case of studies (keys of 64 columns, maps of
// single entries, tables of some hundred rows, float). SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/table_scores.h"

namespace crosstalk::device {

/// Each does its part of the op and returns true, or returns false where the shape is not covered: then the
/// kernels of ops/table_scores_team.cuh do it.
bool staged_scores(const Exec& exec, const TableScoresForward<float>& a);
bool staged_query_gradient(const Exec& exec, const TableScoresBackward<float>& a);
bool staged_table_gradients(const Exec& exec, const TableScoresBackward<float>& a);

}  // namespace crosstalk::device
