// Time and memory of one memory's forms, forward and backward, on the tensors of `crosstalk apply`.
//
// A row is a memory, a form, a format and a shape. On a GPU each pass is captured once and launched as one
// graph between two events; the smallest of several launches counts, and `lowest to highest` is kept beside
// it. The floor is the traffic of all inputs, outputs and their gradients, once each.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/device/cuda_runtime.h"
#include "models/apply_model.h"
#include "models/graph/passes.h"
#include "models/model.h"
#include "models/rules/rule_memory.h"

namespace crosstalk::benchmarks {
namespace {

struct Shape {
  int B, T, H, K, V;
};

/// "256x256x2x64": B x T x H x D, or "256x256x1x325x64": B x T x H x K x V.
Shape shape_of(const std::string& text) {
  Shape s{};
  const int read = std::sscanf(text.c_str(), "%dx%dx%dx%dx%d", &s.B, &s.T, &s.H, &s.K, &s.V);
  if (read != 4 && read != 5)
    throw std::runtime_error(
        fmt::format("--shape {}: expected BxTxHxD or BxTxHxKxV, for example 256x256x2x64", text));
  if (read == 4) s.V = s.K;
  return s;
}

/// Reproducible numbers in (0, 1), whatever the library.
class Uniform {
 public:
  double operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state_ >> 40) + .5) / static_cast<double>(1u << 24);
  }

 private:
  std::uint64_t state_ = 7;
};

/// Inputs as in training: q and k of length 1, log gates near -0.1, other gates in (0, 1).
std::vector<float> draw(const std::string& name, const Tensor<float>& shape, Uniform& uniform) {
  std::vector<float> x(static_cast<std::size_t>(shape.size()));
  const bool vector = name == "q" || name == "k", gate = name != "v" && !vector;
  for (float& a : x) a = static_cast<float>(gate ? uniform() : 2 * uniform() - 1);
  if (name.find("log") != std::string::npos || name == "g")
    for (float& a : x) a *= -.1f;
  if (vector) {
    const std::size_t width = static_cast<std::size_t>(shape.dims[shape.rank - 1]);
    for (std::size_t row = 0; row < x.size(); row += width) {
      double square = 0;
      for (std::size_t i = 0; i < width; ++i) square += double(x[row + i]) * x[row + i];
      for (std::size_t i = 0; i < width; ++i) x[row + i] /= static_cast<float>(std::sqrt(square));
    }
  }
  return x;
}

struct Times {
  double forward = 0, backward = 0;  ///< seconds
};

Times measure_on_cuda(const Graph<float>& graph, int repeats) {
  CudaStream stream;
  Exec exec;
  exec.device = Device::cuda;
  exec.stream = stream.get();
  graph.forward(exec);  // loads the kernels
  graph.backward(exec);
  stream.synchronise();
  CudaGraph forward, backward;
  const auto capture = [&](CudaGraph& target, auto&& pass) {
    target.begin(stream);
    pass();
    target.end();
  };
  capture(forward, [&] { graph.forward(exec); });
  capture(backward, [&] { graph.backward(exec); });
  Times best{1e30, 1e30};
  for (int i = 0; i < repeats + 2; ++i) {
    CudaEvent start, middle, end;
    start.record(stream);
    forward.launch(stream);
    middle.record(stream);
    backward.launch(stream);
    end.record(stream);
    best.forward = std::min(best.forward, middle.seconds_since(start));
    best.backward = std::min(best.backward, end.seconds_since(middle));
  }
  return best;
}

Times measure_on_cpu(const Graph<float>& graph, int repeats) {
  using Clock = std::chrono::steady_clock;
  const Exec exec;
  Times best{1e30, 1e30};
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    graph.forward(exec);
    const auto middle = Clock::now();
    graph.backward(exec);
    const std::chrono::duration<double> forward = middle - start, backward = Clock::now() - middle;
    best.forward = std::min(best.forward, forward.count());
    best.backward = std::min(best.backward, backward.count());
  }
  return best;
}

using Given = std::map<std::string, OptionValue>;

void measure(const Memory& memory, Given given, const std::string& form, const std::string& format,
             const Shape& s, int writes, Device device, int repeats) {
  const ApplySizes sizes{.B = s.B, .T = s.T, .H = s.H, .K = s.K, .V = s.V, .N = writes};
  given["form"] = form;
  if (given.count("law") == 0) given["scale"] = 1 / std::sqrt(double(s.K));
  const Options options = apply_options(memory, sizes, given);
  const Precision products = format == "bf16"   ? Precision::bf16
                             : format == "tf32" ? Precision::tf32
                                                : Precision::full;
  std::vector<ApplyInput> inputs = apply_inputs(memory, sizes);
  std::erase_if(inputs,
                [](const ApplyInput& input) { return input.name.ends_with("0"); });  // starts of states
  std::vector<std::string> present;
  for (const ApplyInput& input : inputs)
    if (input.optional) present.push_back(input.name);
  ApplyModel<float> model(memory, options, sizes, present, device, true, products, false);
  Uniform uniform;
  double bytes = 0;
  const auto fill = [&](const std::string& name, const Tensor<float>& tensor) {
    const std::vector<float> x = draw(name, tensor, uniform);
    const std::size_t size = x.size() * sizeof(float);
    bytes += 2 * static_cast<double>(size);
    if (device == Device::cuda)
      cuda_copy_to_device(tensor.at(0), x.data(), size);
    else
      std::copy(x.begin(), x.end(), tensor.at(0));
  };
  for (const ApplyInput& input : inputs) fill(input.name, model.input(input.name));
  fill("v", model.cotangent());
  const Times times = device == Device::cuda ? measure_on_cuda(model.graph(), repeats)
                                             : measure_on_cpu(model.graph(), repeats);
  fmt::print("{},{},{},{},{},{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{}\n", memory.name, form, format, s.B,
             s.T, s.H, s.K == s.V ? std::to_string(s.K) : fmt::format("{}x{}", s.K, s.V), times.forward * 1e6,
             times.backward * 1e6, (times.forward + times.backward) * 1e6, bytes / 1e6,
             static_cast<double>(model.graph().bytes()) / 1e6, model.graph().forms());
  std::fflush(stdout);
}

/// Memory of the graph of one training step, with a place for every tensor and with places shared.
void measure_graph(const std::string& memory) {
  constexpr int kS = 100;
  Options options;
  options.set("memory.name", memory);
  options.set("model.d_key", std::int64_t{64});
  fill_defaults(options, "memory", find_memory(memory)->options);
  fill_defaults(options, "model", model_options());
  resolve_model(options, {kS, kS});
  find_memory(memory)->resolve(options);
  double mb[2];
  for (const Sharing sharing : {Sharing::none, Sharing::lifetime}) {
    const auto model = make_model<float>(options, {kS, kS, false}, Device::cpu, 1);
    model->set_sharing(sharing);
    mb[sharing == Sharing::lifetime] =
        static_cast<double>(model->graph(32, {kS, 2, 1}, true)->graph.bytes()) / 1e6;
  }
  fmt::print("{},{:.2f},{:.2f},{:.2f}\n", memory, mb[0], mb[1], mb[1] / mb[0]);
}

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  std::vector<std::string> memories, forms, formats, shapes, without;
  std::string device, law;
  int repeats = 0, writes = 1;
  double largest = 0;
  const auto list = [](std::vector<std::string>* v) { return po::value(v)->composing()->multitoken(); };
  po::options_description all("Time of a memory's forms; prints CSV");
  all.add_options()("help", "this text")(
      "graphs", "memory of a training step's graph instead (recall, S = 100, batch 32, one replica)")(
      "memory", list(&memories), "memories; default delta")("law", po::value(&law),
                                                            "law of the memory `rule`, as in a study")(
      "form", list(&forms), "forms, or `automatic`; default all that cover the memory")(
      "format", list(&formats), "fp32, tf32, bf16; default fp32")(
      "shape", list(&shapes), "BxTxHxD or BxTxHxKxV; default 256x256x2x64")(
      "writes", po::value(&writes)->default_value(1), "writes of a token")(
      "device", po::value(&device)->default_value("cpu"), "cpu or cuda")(
      "repeats", po::value(&repeats)->default_value(5), "launches; the fastest counts")(
      "no-pass", list(&without), "passes to leave out (models/graph/passes.h)")(
      "largest", po::value(&largest)->default_value(30e9),
      "bytes of weights over tokens beyond which the forms parallel and query are left out");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, all), given);
  po::notify(given);
  if (given.count("help")) {
    fmt::print("{}", fmt::streamed(all));
    return 0;
  }
  if (given.count("graphs")) {
    fmt::print("memory,apart_mb,shared_mb,ratio\n");
    for (const Memory& kind : all_memories())
      if (memories.empty() || std::count(memories.begin(), memories.end(), kind.name))
        measure_graph(kind.name);
    return 0;
  }
  if (memories.empty()) memories = {law.empty() ? "delta" : "rule"};
  if (formats.empty()) formats = {"fp32"};
  if (shapes.empty()) shapes = {"256x256x2x64"};
  for (const std::string& name : without) {
    if (std::count(pass_names().begin(), pass_names().end(), name) == 0)
      throw std::runtime_error(
          fmt::format("--no-pass {}: the passes are {}", name, fmt::join(pass_names(), ", ")));
  }
  switch_off_passes({without.begin(), without.end()});
  if (device == "cuda") cuda_prepare_process();
  fmt::print("memory,form,format,B,T,H,D,forward_us,backward_us,both_us,floor_mb,arena_mb,ops\n");
  for (const std::string& shape : shapes)
    for (const std::string& memory : memories) {
      const bool is_law = memory == "rule" && !law.empty();
      const Memory& kind = is_law ? rules::rule_of(law, {}).memory : memory_named(memory);
      const Given given_law = is_law ? Given{{"law", law}} : Given{};
      std::vector<std::string> covering = apply_forms(kind, given_law);
      if (is_law && device == "cuda") covering.push_back("compiled");
      for (const std::string& form : forms.empty() ? covering : forms)
        for (const std::string& format : formats) {
          const Shape s = shape_of(shape);
          const double weights = 4. * s.B * s.H * s.T * s.T * 4;
          if ((form == "parallel" || form == "query") && weights > largest) continue;
          if (form != "automatic" && std::count(covering.begin(), covering.end(), form) == 0) continue;
          try {
            measure(kind, given_law, form, format, s, writes, device == "cuda" ? Device::cuda : Device::cpu,
                    repeats);
          } catch (const std::exception& error) {
            fmt::print(stderr, "{} {} {} {}: {}\n", memory, form, format, shape, error.what());
          }
        }
    }
  return 0;
}

}  // namespace
}  // namespace crosstalk::benchmarks

int main(int argc, char** argv) {
  try {
    return crosstalk::benchmarks::main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "forms_benchmark: {}\n", error.what());
    return 2;
  }
}
