// Scores from table rows with the tables in shared memory: what a block reads of them it reads once.
//
// Every sequence reads nearly all rows of the tables, so a block that takes many sequences, or many rows of a
// table's gradient, copies tables first and then knows no cache misses. Eight lanes are a team: a row of 32
// columns is one access of four neighbours each. Of scores and queries a warp takes 32 tokens at a time, one
// a lane to look it up, then one a team in turns. Their sums are made chunk by chunk of 32 tokens and chunks
// are added in their order: how blocks and warps share them changes nothing. SPDX-License-Identifier:
// Apache-2.0
#include "kernels/ops/table_scores_staged.h"

#include <type_traits>

#include "kernels/ops/staged_tables.cuh"

namespace crosstalk::device {
namespace {

/// q on the way. kWidth < 64: columns pass through shared memory in two halves; scores of the first wait in
/// `a`.
template <FeatureMap kMap, int kTables, int kWidth>
__global__ void __launch_bounds__(1024)
    score_rows(const __grid_constant__ TableScoresForward<float> a, int rows_per_block) {
  extern __shared__ __align__(16) float memory[];
  const int r = blockIdx.y, warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % kLanes,
            team = threadIdx.x % 32 / kLanes;
  const int Q = a.a.dim(1), T = a.a.dim(2), chunks = (T + kTokens - 1) / kTokens;
  const int row0 = blockIdx.x * rows_per_block,
            items = min(rows_per_block, static_cast<int>(a.a.dim(0)) * Q - row0) * chunks;
  const Staged<kTables, kWidth, kMap == FeatureMap::elu1> tables(a.keys, r);
#pragma unroll
  for (int column0 = 0; column0 < kD; column0 += kWidth) {
    if (column0 > 0) __syncthreads();
    tables.fill(a.keys, r, memory, column0);
    int next[kTables];  // where the rows of the next item's tokens lie, on their way during this one
    const auto look_up = [&](int item) {
      const int row = row0 + item / chunks, token = item % chunks * kTokens + threadIdx.x % 32;
      tables.locate(row / Q * T + token, item < items && token < T, next);
    };
    look_up(warp);
    wait_for_copies();
    for (int item = warp; item < items; item += warps) {
      const int row = row0 + item / chunks, t0 = item % chunks * kTokens;
      int offset[kTables];
#pragma unroll
      for (int i = 0; i < kTables; ++i) offset[i] = next[i];
      look_up(item + warps);
      float q[kWidth / 32][4], v[kTurns];
#pragma unroll
      for (int h = 0; h < kWidth / 32; ++h) {
        const int at = row * kD + column0 + 4 * lane + 32 * h;
        load_quad(a.query.at(r) + at, q[h]);
#pragma unroll
        for (int k = 0; k < 4; ++k) q[h][k] = phi<kMap>(q[h][k] + (kMap == FeatureMap::elu1 ? 1.0f : 0.0f));
        if (t0 == 0 && team == 0)
          *reinterpret_cast<float4*>(a.q.at(r) + at) = make_float4(q[h][0], q[h][1], q[h][2], q[h][3]);
      }
#pragma unroll
      for (int s = 0; s < kTurns; ++s) {
        float x[kWidth / 32][4];
        v[s] = 0;
        if (t0 + s * kTeams >= T) continue;  // for the whole warp
        load_key<kTables, kWidth>(memory, offset, s * kTeams + team, x);
#pragma unroll
        for (int h = 0; h < kWidth / 32; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) v[s] += q[h][k] * phi<kMap>(x[h][k]);
        }
      }
      scatter_sum<kTurns, kLanes / 2>(v);  // token `lane` of the team's
      float score = v[0];
      const int t = t0 + lane * kTeams + team;
      if (t < T) {
        float* out = a.a.at(r) + static_cast<std::int64_t>(row) * T + t;
        if (column0 > 0) score += *out;
        if (column0 + kWidth == kD)
          score = t < a.position.at(r)[row] ? static_cast<float>(a.scale) * score : 0.0f;
        *out = score;
      }
    }
  }
}

/// d_query = phi' scale sum_t d_a_t phi(k_t); blockIdx.x is the slice of columns. Shared memory behind the
/// tables: sums of chunks [row of the group][chunk][column].
template <FeatureMap kMap, int kTables, int kWidth>
__global__ void __launch_bounds__(1024) query_gradient(const __grid_constant__ TableScoresBackward<float> a,
                                                       int rows_per_block, int group, int staged) {
  extern __shared__ __align__(16) float memory[];
  float* parts = memory + staged;
  const int r = blockIdx.z, warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % kLanes,
            team = threadIdx.x % 32 / kLanes, column0 = blockIdx.x * kWidth;
  const int Q = a.d_a.dim(1), T = a.d_a.dim(2), chunks = (T + kTokens - 1) / kTokens;
  const int row_end =
      min(static_cast<int>(a.d_a.dim(0)) * Q, static_cast<int>(blockIdx.y + 1) * rows_per_block);
  const Staged<kTables, kWidth, kMap == FeatureMap::elu1> tables(a.keys, r);
  tables.fill(a.keys, r, memory, column0);
  int next[kTables];  // of the next item, on their way during this one
  float next_weight;
  const auto look_up = [&](int first, int item, int items) {
    const int row = min(first + item / chunks, row_end - 1),
              token = item % chunks * kTokens + threadIdx.x % 32;
    const bool seen = item < items && token < min(a.position.at(r)[row], T);
    next_weight = seen ? a.d_a.at(r)[static_cast<std::int64_t>(row) * T + token] : 0.0f;
    tables.locate(row / Q * T + token, seen, next);
  };
  look_up(blockIdx.y * rows_per_block, warp, group * chunks);
  wait_for_copies();
  for (int first = blockIdx.y * rows_per_block; first < row_end; first += group) {
    const int some = min(group, row_end - first), items = some * chunks;
    for (int item = warp; item < items; item += warps) {
      const int t0 = item % chunks * kTokens;
      const float weight = next_weight;
      int offset[kTables];
#pragma unroll
      for (int i = 0; i < kTables; ++i) offset[i] = next[i];
      if (item + warps < items) {
        look_up(first, item + warps, items);
      } else {
        look_up(first + group, warp, row_end > first + group ? group * chunks : 0);
      }
      float sum[kWidth / 32][4] = {};
#pragma unroll
      for (int s = 0; s < kTurns; ++s) {
        if (t0 + s * kTeams >= T) break;  // for the whole warp
        const int source = s * kTeams + team;
        float x[kWidth / 32][4];
        load_key<kTables, kWidth>(memory, offset, source, x);
        const float weighted = __shfl_sync(kFullWarp, weight, source);
#pragma unroll
        for (int h = 0; h < kWidth / 32; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[h][k] += weighted * phi<kMap>(x[h][k]);
        }
      }
      float* part = parts + item * kWidth + 4 * lane;
#pragma unroll
      for (int h = 0; h < kWidth / 32; ++h) {  // over the teams: team k gets column k
        scatter_sum<4, 16, kLanes>(sum[h]);
        part[32 * h + team] = sum[h][0];
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < some * kWidth; i += blockDim.x) {
      const int local = i / kWidth, c = i % kWidth;
      float total = 0;
      for (int chunk = 0; chunk < chunks; ++chunk) total += parts[(local * chunks + chunk) * kWidth + c];
      const int at = (first + local) * kD + column0 + c;
      put(a.write_query, a.d_query.at(r) + at,
          static_cast<float>(a.scale) * total * slope<kMap>(prepared<kMap>(a.query.at(r)[at]), 0));
    }
    __syncthreads();
  }
}

/// d_table; blockIdx.y is the table, a team has a row. Teams of a warp walk their lists side by side: where
/// every sequence has every key they read the same query at the same time, which costs one access. Shared
/// memory: queries, the other tables, and with kTokens (one query a sequence, one other table) where each
/// token's other row lies and its weight.
template <FeatureMap kMap, int kOthers, bool kTokens>
__global__ void __launch_bounds__(1024) table_gradient(const __grid_constant__ TableScoresBackward<float> a,
                                                       int rows_per_block, int token_offset) {
  extern __shared__ __align__(16) float memory[];
  constexpr bool kKeys = kMap != FeatureMap::identity;  // else the gradient knows no keys
  const int r = blockIdx.z, table = blockIdx.y;
  if (a.write_table[table] == Write::none) return;
  const int lane = threadIdx.x % kLanes, own_team = threadIdx.x / kLanes, teams = blockDim.x / kLanes;
  const int Q = a.d_a.dim(1), T = a.d_a.dim(2), queries = a.d_a.dim(0) * Q,
            rows = static_cast<int>(a.d_table[table].rows());
  const std::int32_t *order = a.order[table].at(r), *start = a.start[table].at(r),
                     *position = a.position.at(r);
  const int row0 = blockIdx.x * rows_per_block, row_end = min(rows, row0 + rows_per_block);
  if (row0 >= rows) return;
  const Staged<kOthers, kD> others(a.keys, r, table);
  float* keys = memory + queries * kD;
  const float *q = memory + 4 * lane, *d_a = a.d_a.at(r), scale = static_cast<float>(a.scale);
  stage<kD>(memory, a.q.at(r), queries, 0);
  if constexpr (kKeys) others.fill(a.keys, r, keys, 0, table);
  float2* tokens = reinterpret_cast<float2*>(memory + token_offset);
  if constexpr (kTokens) {
#pragma unroll 4
    for (int n = threadIdx.x; n < queries * T; n += blockDim.x) {
      const int b = n / T;
      int offset[1];
      others.locate(n, true, offset);
      tokens[n] = {__int_as_float(offset[0]), n - b * T < position[b] ? scale * d_a[n] : 0.0f};
    }
  }
  wait_for_copies();
  for (int first = row0; first < row_end; first += teams) {
    const int row = first + own_team, safe = min(row, row_end - 1);
    const int begin = start[safe], end = row < row_end ? start[safe + 1] : begin;
    float known[2][4], total[2][4] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      load_quad(a.keys.table[table].at(r) + safe * kD + 4 * lane + 32 * h, known[h]);
#pragma unroll
      for (int k = 0; k < 4; ++k) known[h][k] = prepared<kMap>(known[h][k]);
    }
    const int longest = __reduce_max_sync(kFullWarp, end - begin);
    constexpr int kAhead = 4;  // entries a lane that are looked up together
    for (int k0 = 0; k0 < longest; k0 += kAhead * kLanes) {
      int token[kAhead], offset[kAhead][kOthers];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int listed = begin + k0 + j * kLanes + lane;
        token[j] = listed < end ? order[listed] : -1;
      }
#pragma unroll
      for (int j = 0; j < kAhead && !kTokens; ++j)
        others.locate(max(token[j], 0), token[j] >= 0 && kKeys, offset[j]);
      for (int i = 0; i < (kTokens ? 1 : Q); ++i) {
        int query[kAhead];
        float weight[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          const int n = max(token[j], 0), b = n / T, t = n - b * T;
          query[j] = b * Q + i;
          if constexpr (kTokens) {
            const float2 info = tokens[n];
            offset[j][0] = __float_as_int(info.x), weight[j] = info.y;
          } else {
            weight[j] =
                t < position[query[j]] ? scale * d_a[static_cast<std::int64_t>(query[j]) * T + t] : 0.0f;
          }
          if (token[j] < 0) weight[j] = 0;
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          const int turns = min(kLanes, longest - k0 - j * kLanes);
#pragma unroll 2
          for (int s = 0; s < turns; ++s) {
            const int source = threadIdx.x % 32 / kLanes * kLanes + s;
            const float w = __shfl_sync(kFullWarp, weight[j], source);
            const float* q_row = q + __shfl_sync(kFullWarp, query[j] * kD, source);
            float x[2][4];
            if constexpr (kKeys) load_key<kOthers, kD>(keys, offset[j], source, x);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float g[4];
              load_quad(q_row + 32 * h, g);
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                if constexpr (kKeys) g[k] *= slope<kMap>(known[h][k], x[h][k]);
                total[h][k] += w * g[k];
              }
            }
          }
        }
      }
    }
    if (row >= row_end) continue;
    float* out = a.d_table[table].at(r) + row * kD + 4 * lane;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float before[4] = {};
      if (a.write_table[table] == Write::add) load_quad(out + 32 * h, before);
      *reinterpret_cast<float4*>(out + 32 * h) = make_float4(
          before[0] + total[h][0], before[1] + total[h][1], before[2] + total[h][2], before[3] + total[h][3]);
    }
  }
}

/// Bytes of `kWidth` columns of all tables but `skip`.
std::size_t bytes_of(const TableKeys<float>& keys, int width, int skip = -1) {
  std::int64_t rows = 0;
  for (int i = 0; i < keys.tables; ++i) rows += i == skip ? 0 : keys.table[i].rows() + 1;
  return static_cast<std::size_t>(rows * width) * sizeof(float);
}

bool covered(const TableKeys<float>& keys) {
  return keys.table[0].columns() == kD && keys.tables >= 2 && keys.map != FeatureMap::dpfp &&
         !is_favor(keys.map);
}

bool fits(std::size_t bytes) { return bytes <= kStagedBytes && bytes <= shared_memory_limit(); }

/// Blocks that share a multiprocessor's memory, and threads of each: 1024 in all.
int residents_of(std::size_t bytes) { return bytes <= kStagedBytes / 2 ? 2 : 1; }

/// Calls f(map, tables) with types for these keys.
template <class F>
void with_map(const TableKeys<float>& keys, F&& f) {
  const auto with_tables = [&](auto map) {
    if (keys.tables == 2) f(map, std::integral_constant<int, 2>());
    if (keys.tables == 3) f(map, std::integral_constant<int, 3>());
  };
  if (keys.map == FeatureMap::identity)
    with_tables(std::integral_constant<FeatureMap, FeatureMap::identity>());
  if (keys.map == FeatureMap::elu1) with_tables(std::integral_constant<FeatureMap, FeatureMap::elu1>());
  if (keys.map == FeatureMap::relu) with_tables(std::integral_constant<FeatureMap, FeatureMap::relu>());
  if (keys.map == FeatureMap::tanh) with_tables(std::integral_constant<FeatureMap, FeatureMap::tanh>());
}

/// Whole rows or halves of them, whichever fits: f(map, tables, width). Which one is a function of the shape
/// and of the kind of GPU.
template <class F>
bool with_width(const TableKeys<float>& keys, std::size_t more_a_column, F&& f) {
  if (!covered(keys)) return false;
  for (const int width : {64, 32}) {
    if (!fits(bytes_of(keys, width) + more_a_column * static_cast<std::size_t>(width))) continue;
    with_map(keys, [&](auto map, auto tables) {
      if (width == 64) f(map, tables, std::integral_constant<int, 64>());
      if (width == 32) f(map, tables, std::integral_constant<int, 32>());
    });
    return true;
  }
  return false;
}

}  // namespace

bool staged_scores(const Exec& exec, const TableScoresForward<float>& a) {
  return with_width(a.keys, 0, [&](auto map, auto tables, auto width) {
    const auto kernel = score_rows<map(), tables(), width()>;
    const std::size_t bytes = bytes_of(a.keys, width());
    const int rows = a.a.dim(0) * a.a.dim(1), residents = residents_of(bytes),
              some = per_block(rows, a.a.R, residents);
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(blocks_for(rows, some), static_cast<unsigned>(a.a.R)),
             1024u / static_cast<unsigned>(residents), bytes, stream_of(exec)>>>(a, some);
    check_launch("table scores");
  });
}

bool staged_query_gradient(const Exec& exec, const TableScoresBackward<float>& a) {
  const int rows = a.d_a.dim(0) * a.d_a.dim(1), chunks = (a.d_a.dim(2) + kTokens - 1) / kTokens;
  const std::size_t row_bytes = static_cast<std::size_t>(chunks) * sizeof(float);  // a column
  return with_width(a.keys, row_bytes, [&](auto map, auto tables, auto width) {
    constexpr int kSlices = kD / width();
    const auto kernel = query_gradient<map(), tables(), width()>;
    const std::size_t staged = bytes_of(a.keys, width()), part = row_bytes * width();
    const int residents = residents_of(staged + 2 * part),
              some = per_block(rows, kSlices * a.d_a.R, residents);
    // Rows whose sums are in memory at once: enough for two chunks a warp.
    const int wanted = 64 / residents / chunks + 1,
              room = static_cast<int>((kStagedBytes / static_cast<std::size_t>(residents) - staged) / part),
              least = wanted < room ? wanted : room,
              group = least < 1      ? 1
                      : least < some ? least
                                     : some;
    const std::size_t bytes = staged + static_cast<std::size_t>(group) * part;
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(kSlices, blocks_for(rows, some), static_cast<unsigned>(a.d_a.R)),
             1024u / static_cast<unsigned>(residents), bytes, stream_of(exec)>>>(
        a, some, group, static_cast<int>(staged / sizeof(float)));
    check_launch("table scores backward (q)");
  });
}

bool staged_table_gradients(const Exec& exec, const TableScoresBackward<float>& a) {
  if (!covered(a.keys)) return false;
  const std::int64_t queries = a.d_a.dim(0) * a.d_a.dim(1), tokens = a.keys.ids.rows();
  std::size_t bytes = 0;
  std::int64_t most = 0;
  for (int i = 0; i < a.keys.tables; ++i) {
    if (tokens > 64 * a.keys.table[i].rows()) return false;  // long lists want several warps
    const std::size_t others =
        bytes_of(a.keys, kD, i) + static_cast<std::size_t>(queries * kD) * sizeof(float);
    bytes = others > bytes ? others : bytes;
    if (a.write_table[i] != Write::none && a.keys.table[i].rows() > most) most = a.keys.table[i].rows();
  }
  if (!fits(bytes)) return false;
  if (most == 0) return true;
  const int token_offset = static_cast<int>(bytes / sizeof(float));
  const std::size_t with_tokens = bytes + static_cast<std::size_t>(tokens) * sizeof(float2);
  const std::int64_t groups = static_cast<std::int64_t>(a.keys.tables) * a.d_a.R;
  // Where a block has but few rows, few tokens concern it.
  const bool staged_tokens = a.d_a.dim(1) == 1 && a.keys.tables == 2 && groups >= kMultiprocessors / 2 &&
                             a.keys.map != FeatureMap::identity && with_tokens <= kStagedBytes / 2 &&
                             fits(with_tokens);
  if (staged_tokens) bytes = with_tokens;
  // Blocks of a table such that all of them are under way at once, and then as few teams as make no more
  // rounds; but enough threads to copy tables.
  const std::int64_t residents = residents_of(bytes), n = kMultiprocessors * residents / groups,
                     wanted = n < 1 ? most : (most + n - 1) / n, some = wanted < 8 ? 8 : wanted,
                     room = 1024 / residents / kLanes, rounds = (some + room - 1) / room,
                     warps = ((some + rounds - 1) / rounds + kTeams - 1) / kTeams;
  const auto launch = [&](auto kernel) {
    allow_shared_memory(kernel, bytes);
    kernel<<<dim3(blocks_for(most, some), static_cast<unsigned>(a.keys.tables),
                  static_cast<unsigned>(a.d_a.R)),
             static_cast<unsigned>(32 * (warps < 16 ? 16 : warps)), bytes, stream_of(exec)>>>(
        a, static_cast<int>(some), token_offset);
    check_launch("table scores backward (tables)");
  };
  with_map(a.keys, [&](auto map, auto tables) {
    if constexpr (tables() == 2 && map() != FeatureMap::identity) {
      if (staged_tokens) return launch(table_gradient<map(), 1, true>);
    }
    launch(table_gradient<map(), tables() - 1, false>);
  });
  return true;
}

}  // namespace crosstalk::device
