// A task, or a part of one, as Python sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "python/core/convert.h"
#include "tasks/task.h"

namespace crosstalk::python {

using Integers = nb::ndarray<std::int32_t, nb::c_contig, nb::device::cpu>;

class Stream {
 public:
  Stream(std::shared_ptr<const Task> task, std::string name, std::int64_t sequences);
  /// A registered task with options, checked and resolved.
  Stream(const std::string& name, const nb::dict& given);

  const std::string& name() const { return name_; }
  std::int64_t sequences() const { return sequences_; }
  const Task& task() const { return *task_; }

  nb::dict vocabulary() const;
  nb::tuple shape(const std::string& split, int max_queries) const;
  std::vector<Stream> segments(const std::string& split) const;
  std::int64_t size(const std::string& split) const;
  std::map<std::string, double> baselines() const;
  std::string text(const std::string& split, std::uint64_t seed, int count) const;
  /// (steps of an epoch, [(first step, steps) of each part]); 0 and one part where the sequences have no end.
  nb::tuple epoch(int batch) const;
  /// Sequences first .. first + B - 1 of a split for each of the seeds: tokens [R,B,T,C]; query, position, target [R,B,Q].
  void draw(const std::string& split, const std::vector<std::uint64_t>& seeds, std::int64_t first,
            int max_queries, int threads, const Integers& tokens, const Integers& query,
            const Integers& position, const Integers& target) const;

  /// The same on a GPU, in the order of the stream of `where`, row r beginning at sequence first + B counter[r]: seed [R,2] and
  /// counter [R,1] int32, scratch [R,B,scratch_size + 1]; memory of that device, of sizes that the caller has seen to.
  void draw_on_device(const std::string& split, int R, int B, std::int64_t first, int max_queries, int device,
                      std::uintptr_t stream, const std::map<std::string, std::uintptr_t>& memory) const;
  int scratch_size() const { return task_->scratch_size(); }
  /// Brings to a GPU what draws read there; once, before the first.
  void prepare(int device) const;

 private:
  std::shared_ptr<const Task> task_;
  std::string name_;
  std::int64_t sequences_;
};

Split split_of(const std::string& name);

}  // namespace crosstalk::python
