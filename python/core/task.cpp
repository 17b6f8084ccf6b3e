// Tasks as streams: sequences are drawn into arrays that Python made.
// SPDX-License-Identifier: Apache-2.0
#include "python/core/stream.h"

#include <fmt/format.h>

#include "experiments/inspect/sample.h"
#include "experiments/program/help/topics.h"
#include "experiments/training/epoch.h"
#include "kernels/base/error.h"
#include "python/core/plan.h"
#include "tasks/given_files.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

Tensor<std::int32_t> rows(std::int32_t* data, std::int64_t R, std::int64_t row) {
  Tensor<std::int32_t> t;
  t.data = data, t.R = static_cast<int>(R), t.replica_stride = row, t.rank = 1,
  t.dims[0] = static_cast<int>(row);
  return t;
}

std::shared_ptr<const Task> made(const std::string& name, const nb::dict& given) {
  const TaskKind& kind = named_task(name);
  Options options;
  for (const auto& [key, value] : checked(given, kind.options, "task", name))
    options.set("task." + key, value);
  options.set("task.name", name);
  const nb::gil_scoped_release release;
  fill_defaults(options, "task", kind.options);
  if (kind.resolve != nullptr) kind.resolve(options);
  return kind.make(options);
}

}  // namespace

Split split_of(const std::string& name) {
  for (const Split split : {Split::train, Split::eval, Split::test})
    if (name == split_name(split)) return split;
  throw nb::value_error(fmt::format("split '{}'; there are train, eval and test", name).c_str());
}

Stream::Stream(std::shared_ptr<const Task> task, std::string name, std::int64_t sequences)
    : task_(std::move(task)), name_(std::move(name)), sequences_(sequences) {
  task_->prepare(Device::cpu);
}
Stream::Stream(const std::string& name, const nb::dict& given) : Stream(made(name, given), "", 0) {}

nb::dict Stream::vocabulary() const {
  const Vocabulary v = task_->vocabulary();
  nb::dict all;
  all["tokens"] = v.tokens, all["keys"] = v.keys, all["values"] = v.values, all["second_key"] = v.second_key;
  all["numbers"] = v.numbers;
  return all;
}

nb::tuple Stream::shape(const std::string& split, int max_queries) const {
  const SequenceShape s = task_->shape(split_of(split), max_queries);
  return nb::make_tuple(s.T, s.C, s.Q);
}

std::vector<Stream> Stream::segments(const std::string& split) const {
  std::vector<Stream> all;
  for (const TaskSegment& s : task_->segments(split_of(split))) all.emplace_back(s.task, s.name, s.sequences);
  return all;
}

std::int64_t Stream::size(const std::string& split) const { return task_->sequences(split_of(split)); }

std::map<std::string, double> Stream::baselines() const {
  const nb::gil_scoped_release release;
  return task_->baselines();
}

std::string Stream::text(const std::string& split, std::uint64_t seed, int count) const {
  return sample_text(*task_, split_of(split), seed, count);
}

nb::tuple Stream::epoch(int batch) const {
  const Epoch epoch(*task_, batch);
  nb::list parts;
  for (const EpochPart& part : epoch.parts()) parts.append(nb::make_tuple(part.start, part.steps));
  return nb::make_tuple(epoch.steps(), parts);
}

void Stream::draw(const std::string& split, const std::vector<std::uint64_t>& seeds, std::int64_t first,
                  int max_queries, int threads, const Integers& tokens, const Integers& query,
                  const Integers& position, const Integers& target) const {
  DrawArgs a;
  a.split = split_of(split);
  a.shape = task_->shape(a.split, max_queries);
  const auto R = static_cast<std::int64_t>(seeds.size());
  if (tokens.ndim() != 4 || tokens.shape(0) != seeds.size() || R == 0)
    throw nb::value_error("tokens must have the shape [R,B,T,C], R being the number of seeds");
  a.B = static_cast<int>(tokens.shape(1));
  const auto bind = [&](const Integers& array, std::int64_t row, const char* what) {
    if (static_cast<std::int64_t>(array.size()) != R * a.B * row)
      throw nb::value_error(
          fmt::format("{} has {} numbers; expected {}", what, array.size(), R * a.B * row).c_str());
    return rows(array.data(), R, a.B * row);
  };
  a.tokens = bind(tokens, static_cast<std::int64_t>(a.shape.T) * a.shape.C, "tokens");
  a.query = bind(query, a.shape.Q, "query");
  a.position = bind(position, a.shape.Q, "position");
  a.target = bind(target, a.shape.Q, "target");
  if (first < 0) throw nb::value_error("the number of the first sequence is 0 or more");
  a.stride = 0, a.offset = first;
  std::vector<std::int32_t> words, zeros(seeds.size(), 0);
  for (const std::uint64_t seed : seeds) {
    words.push_back(static_cast<std::int32_t>(seed));
    words.push_back(static_cast<std::int32_t>(seed >> 32));
  }
  a.seed = rows(words.data(), R, 2);
  a.counter = rows(zeros.data(), R, 1);
  Exec exec;
  exec.threads = std::max(1, threads);
  const nb::gil_scoped_release release;
  task_->draw(exec, a);
  require_unchanged(*task_);
}

void Stream::prepare(int device) const {
  const nb::gil_scoped_release release;
  const Where where = where_of(device, 0);
  const OnDevice on(where);
  task_->prepare(Device::cuda);
  require_unchanged(*task_);
}

void Stream::draw_on_device(const std::string& split, int R, int B, std::int64_t first, int max_queries,
                            int device, std::uintptr_t stream,
                            const std::map<std::string, std::uintptr_t>& memory) const {
  DrawArgs a;
  a.split = split_of(split);
  a.shape = task_->shape(a.split, max_queries);
  a.B = B;
  const auto bind = [&](const char* what, std::int64_t row) {
    return rows(reinterpret_cast<std::int32_t*>(memory.at(what)), R, row);
  };
  a.tokens = bind("tokens", static_cast<std::int64_t>(B) * a.shape.T * a.shape.C);
  a.query = bind("query", static_cast<std::int64_t>(B) * a.shape.Q);
  a.position = bind("position", static_cast<std::int64_t>(B) * a.shape.Q);
  a.target = bind("target", static_cast<std::int64_t>(B) * a.shape.Q);
  a.scratch = bind("scratch", static_cast<std::int64_t>(B) * (task_->scratch_size() + 1));
  a.seed = bind("seed", 2), a.counter = bind("counter", 1);
  a.stride = B, a.offset = first;
  const Where where = where_of(device, stream);
  const nb::gil_scoped_release release;
  const OnDevice on(where);
  task_->draw(where.exec(1), a);
}

namespace {

/// What `crosstalk describe` prints of a name. Throws ValueError, which says what may be meant.
std::string described(const std::string& name) {
  std::string text = program::described(name);
  if (!text.empty()) return text;
  const std::string meant = program::meant_by(name);
  throw nb::value_error(fmt::format("nothing is called '{}'; {}", name,
                                    meant.empty() ? "memories() and tasks() list names" : meant)
                            .c_str());
}

nb::dict describe_task(const std::string& name) {
  const TaskKind& kind = named_task(name);
  nb::dict all;
  all["name"] = kind.name, all["summary"] = kind.summary, all["text"] = kind.description;
  all["options"] = list_of(kind.options);
  return all;
}

}  // namespace

void bind_task(nb::module_& m) {
  m.def("tasks", [] {
    std::vector<std::string> names;
    for (const TaskKind& kind : task_kinds()) names.push_back(kind.name);
    return names;
  });
  m.def("describe_task", &describe_task, "name"_a);
  m.def("described", &described, "name"_a);
  nb::class_<Stream>(m, "Stream")
      .def(nb::init<const std::string&, const nb::dict&>(), "name"_a, "options"_a)
      .def_prop_ro("name", &Stream::name)
      .def_prop_ro("sequences", &Stream::sequences)
      .def_prop_ro("vocabulary", &Stream::vocabulary)
      .def("shape", &Stream::shape, "split"_a, "max_queries"_a = 0)
      .def("segments", &Stream::segments, "split"_a)
      .def("size", &Stream::size, "split"_a)
      .def("baselines", &Stream::baselines)
      .def("text", &Stream::text, "split"_a, "seed"_a, "count"_a)
      .def("epoch", &Stream::epoch, "batch"_a)
      .def_prop_ro("scratch_size", &Stream::scratch_size)
      .def("prepare", &Stream::prepare, "device"_a)
      .def("draw_on_device", &Stream::draw_on_device, "split"_a, "R"_a, "B"_a, "first"_a, "max_queries"_a,
           "device"_a, "stream"_a, "memory"_a)
      // Without noconvert() an array of another type or order is copied, and the copy is filled.
      .def("draw", &Stream::draw, "split"_a, "seeds"_a, "first"_a, "max_queries"_a, "threads"_a,
           "tokens"_a.noconvert(), "query"_a.noconvert(), "position"_a.noconvert(), "target"_a.noconvert());
}

}  // namespace crosstalk::python
