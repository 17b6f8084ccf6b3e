// Parts that the files of nodes share: checks of shapes, optional variables, tables of keys as ops want them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <crosstalk_ops.h>
#include "models/graph/nodes.h"

namespace crosstalk {

/// "[R=2,3,4]", for messages.
template <class T>
std::string shape_text(const Tensor<T>& t) {
  return fmt::format("[R={},{}]", t.R, fmt::join(t.dims, t.dims + t.rank, ","));
}

template <class A, class B>
void require(bool ok, const char* op, const Tensor<A>& a, const Tensor<B>& b) {
  if (!ok)
    throw std::logic_error(
        fmt::format("[{}] shapes do not fit: {} and {}", op, shape_text(a), shape_text(b)));
}

/// The tensor of an optional variable.
template <class Real>
Tensor<Real> value(const Variable<Real>* v) {
  return v ? v->value : Tensor<Real>{};
}
template <class Real>
Tensor<Real> gradient(const Variable<Real>* v) {
  return v ? v->gradient : Tensor<Real>{};
}

/// Fused ops stand on a GPU in the place of their chain, which a CPU runs.
template <class Args>
void run_fused(const Exec& exec, const char* op, const Args& args) {
  if (exec.device != Device::cuda)
    throw std::logic_error(fmt::format("[{}] has no CPU form: run the chain that it replaces", op));
  run_cuda(exec, args);
}

/// The rows of tables that fit each other and the ids.
template <class Real>
std::vector<Variable<Real>*> checked_tables(const char* op, const Tensor<std::int32_t>& ids,
                                            const std::vector<Table<Real>>& tables) {
  if (tables.empty() || tables.size() > kMaxTables)
    throw std::logic_error(fmt::format("[{}] wants 1 to {} tables", op, kMaxTables));
  std::vector<Variable<Real>*> rows;
  for (const auto& table : tables) {
    require(table.rows->value.columns() == tables[0].rows->value.columns(), op, table.rows->value,
            tables[0].rows->value);
    require(table.channel < ids.columns(), op, table.rows->value, ids);
    rows.push_back(table.rows);
  }
  return rows;
}

/// The backward pass of a lookup into tables, but for the gradient that comes in.
template <class Real>
Lookup<Real> table_gradients(const Tensor<std::int32_t>& ids, const std::vector<Table<Real>>& tables,
                             const std::vector<Write>& writes) {
  Lookup<Real> args;
  args.ids.value = ids;
  for (const auto& table : tables) {
    args.channel[args.tables] = table.channel;
    args.table[args.tables].write = writes[static_cast<std::size_t>(args.tables)];
    if (table.buckets.order) {
      args.order[args.tables].value = *table.buckets.order;
      args.start[args.tables].value = *table.buckets.start;
    }
    args.table[args.tables++].gradient = table.rows->gradient;
  }
  return args;
}

/// Keys of tokens: sums of rows of `tables`, then phi.
template <class Real>
TableKeys<Real> table_keys(FeatureMap map, int nu, const Tensor<std::int32_t>& ids,
                           const std::vector<Table<Real>>& tables) {
  TableKeys<Real> keys;
  keys.map = map, keys.nu = nu, keys.ids = ids;
  for (const auto& table : tables) {
    keys.channel[keys.tables] = table.channel;
    keys.table[keys.tables++] = table.rows->value;
  }
  return keys;
}

}  // namespace crosstalk
