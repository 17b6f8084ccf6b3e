// Time of laws that run token after token (kernels/rule/rule_read.h), interpreted and compiled, forward and backward.
//
// A row is a law, a form and a shape. On a GPU each pass is queued several times between two events; the smallest time
// counts. `error` is the largest difference of o and of all gradients to the CPU's interpreter in double, over the largest
// number of each; of small shapes. `plan` is the time to make it, compiling among it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "kernels/base/device/cuda_runtime.h"
#include "models/rules/law.h"
#include "models/rules/law_examples.h"
#include "models/rules/program.h"
#include "models/rules/rule_run.h"

namespace crosstalk::benchmarks {
namespace {

struct Shape {
  int B = 1, T = 1, K = 1, V = 1;
};

struct Times {
  double forward = 1e30, backward = 1e30;
};

template <class Real>
Times measure(const RuleRead<Real>& op, int repeats) {
  Times best;
  Exec exec;
  exec.device = op.device;
  if (op.device == Device::cuda) {
    CudaStream stream;
    exec.stream = stream.get();
    forward(exec, op), backward(exec, op);
    for (int i = 0; i < repeats; ++i) {
      CudaEvent start, middle, end;
      start.record(stream);
      forward(exec, op);
      middle.record(stream);
      backward(exec, op);
      end.record(stream);
      best.forward = std::min(best.forward, middle.seconds_since(start));
      best.backward = std::min(best.backward, end.seconds_since(middle));
    }
    stream.synchronise();
    return best;
  }
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    forward(exec, op);
    const auto middle = Clock::now();
    backward(exec, op);
    const std::chrono::duration<double> f = middle - start, b = Clock::now() - middle;
    best.forward = std::min(best.forward, f.count()), best.backward = std::min(best.backward, b.count());
  }
  return best;
}

template <class Real>
void row(const std::string& name, const std::shared_ptr<const RuleProgram>& program, const Shape& s,
         Device device, bool compiled, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  const rules::RuleRunSize size{.B = s.B, .T = s.T};
  const rules::RuleRun<Real> run(program, size, device, compiled);
  const std::chrono::duration<double> plan = std::chrono::steady_clock::now() - start;
  const Times times = measure(run.op(), repeats);
  double error = NAN;
  if (std::int64_t{s.B} * s.T * program->largest < 1 << 20) {
    const rules::RuleRun<double> truth(program, size, Device::cpu, false);
    const Exec exec;
    forward(exec, truth.op()), backward(exec, truth.op());
    error = rules::farthest(run.results(), truth.results());
  }
  const double tokens = 1e-6 * s.B * s.T;
  fmt::print("{:20} {:12} {:7} {:6} {:5} {:4} {:4} {:11.4g} {:11.4g} {:6.2f} {:9.2e} {:7.2f}\n", name,
             compiled ? "compiled" : "interpreted", sizeof(Real) == 8 ? "double" : "float", s.B, s.T, s.K,
             s.V, tokens / times.forward, tokens / times.backward, times.backward / times.forward, error,
             plan.count());
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  namespace po = boost::program_options;
  po::options_description options("crosstalk_rule_benchmark");
  std::vector<std::string> laws, shapes, forms, formats;
  std::string device;
  int repeats = 5;
  options.add_options()("help", "this text")                                                              //
      ("law", po::value(&laws)->multitoken()->default_value({"fwm"}, "fwm"), "examples by name, or all")  //
      ("shape", po::value(&shapes)->multitoken()->default_value({"4224x256x32x32"}, "4224x256x32x32"),
       "B x T x K x V: sequences x heads, tokens, sizes of keys and values")  //
      ("form", po::value(&forms)->multitoken()->default_value({"interpreted", "compiled"}, "both"),
       "interpreted, compiled")                                                                          //
      ("format", po::value(&formats)->multitoken()->default_value({"float"}, "float"), "float, double")  //
      ("device", po::value(&device)->default_value("cuda"), "cpu, cuda")                                 //
      ("repeats", po::value(&repeats)->default_value(5), "");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, options), given);
  po::notify(given);
  if (given.count("help") != 0) {
    std::cout << options;
    return 0;
  }
  fmt::print("{:20} {:12} {:7} {:6} {:5} {:4} {:4} {:>11} {:>11} {:>6} {:>9} {:>7}\n", "law", "form",
             "format", "B", "T", "K", "V", "fwd Mtok/s", "bwd Mtok/s", "b/f", "error", "plan s");
  const Device on = device == "cuda" ? Device::cuda : Device::cpu;
  for (const rules::Example& example : rules::examples()) {
    const bool wanted = std::any_of(laws.begin(), laws.end(), [&](const std::string& one) {
      return one == "all" || one == example.name;
    });
    if (!wanted) continue;
    for (const std::string& text : shapes) {
      Shape s;
      if (std::sscanf(text.c_str(), "%dx%dx%dx%d", &s.B, &s.T, &s.K, &s.V) != 4)
        throw std::runtime_error(fmt::format("--shape {}: expected BxTxKxV", text));
      const std::unique_ptr<rules::Law> law = rules::parse_law(rules::steps_of(example.law), {});
      const std::shared_ptr<const RuleProgram> program =
          rules::program_of(*law, rules::cut(*law, false), s.K, s.V);
      for (const std::string& form : forms) {
        for (const std::string& format : formats) {
          const bool compiled = form == "compiled";
          if (compiled && on == Device::cpu) continue;
          if (format == "double") {
            row<double>(example.name, program, s, on, compiled, repeats);
          } else {
            row<float>(example.name, program, s, on, compiled, repeats);
          }
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace crosstalk::benchmarks

int main(int argc, char** argv) {
  try {
    crosstalk::cuda_prepare_process();
    return crosstalk::benchmarks::main_of(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "crosstalk_rule_benchmark: {}\n", error.what());
    return 2;
  }
}
