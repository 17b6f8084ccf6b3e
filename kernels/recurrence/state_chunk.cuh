// The chunkwise form of the recurrence engine on CUDA: products of matrices, chunk after chunk. Of StateRead:
//
//   fields                         here                                the plain kernels, token after token
//   Real                           float, all formats of products      double
//   K, V                           1 to 128, padded to 32, 64 or 128;  larger
//                                  without an erase, any K
//   log_decay                      none, a token's, a key channel's
//   erase                          any
//   before, decayed, end           any
//   start                          without positions                   with positions
//   writes                         up to the rows of a chunk           more
//   position                       any
//
// Where a GPU has less shared memory than a kernel asks for (227 KB at most), the plain kernels run as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_read.h"

namespace crosstalk::device {

template <bool kBack, class Real>
void chunk_read(const Exec& exec, const StateRead<Real>& op);

/// The same, and chunk_read_covers(), for ops whose key channels decay each by itself: those call these.
bool channel_read_covers(const StateRead<float>& op);
template <bool kBack>
void channel_read(const Exec& exec, const StateRead<float>& op);

}  // namespace crosstalk::device
