// crosstalk doctor: whether this machine and this build can train and draw, and what to do where not.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/common/version.h"
#include "experiments/program/gpu_report.h"
#include "experiments/sharing/python_package.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/device/nvrtc.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "plots/figure.h"

#ifndef CROSSTALK_CUDA_ARCHITECTURES
#define CROSSTALK_CUDA_ARCHITECTURES ""
#endif

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

/// One line of the report. A problem stops training; a note does not.
struct Finding {
  std::string name, level, text, remedy;
};
using Findings = std::vector<Finding>;

void ok(Findings& findings, const std::string& name, const std::string& text) {
  findings.push_back({name, "ok", text, ""});
}
void note(Findings& findings, const std::string& name, const std::string& text, const std::string& remedy) {
  findings.push_back({name, "note", text, remedy});
}
void problem(Findings& findings, const std::string& name, const std::string& text,
             const std::string& remedy) {
  findings.push_back({name, "problem", text, remedy});
}

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024 * 1024)); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool executable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::string find_nvcc() {
  std::istringstream path(environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (!folder.empty() && executable(fs::path(folder) / "nvcc")) return fs::path(folder) / "nvcc";
  for (const std::string& root :
       {environment("CUDA_HOME"), environment("CUDA_PATH"), std::string("/usr/local/cuda")})
    if (!root.empty() && executable(fs::path(root) / "bin" / "nvcc")) return fs::path(root) / "bin" / "nvcc";
  return "";
}

void look_at_build(Findings& findings) {
  const Version& built = version();
  ok(findings, "version",
     fmt::format("{} ({}{}), {}, {}", built.version, std::string(built.commit).substr(0, 12),
                 built.dirty ? ", with local changes" : "", built.compiler, built.build_type));
  const std::string architectures = CROSSTALK_CUDA_ARCHITECTURES;
  if (built_with_cuda())
    ok(findings, "build",
       "with CUDA" + (architectures.empty() ? "" : ", for the architectures " + architectures));
  else
    ok(findings, "build", "without CUDA: trains on the CPU");
  if (std::string(built.build_type) != "Release" && std::string(built.build_type) != "RelWithDebInfo")
    note(findings, "build", fmt::format("build type {}: training is slow", built.build_type),
         "configure with -DCMAKE_BUILD_TYPE=Release");
}

/// A whole number in a file of one line ("max" is none).
std::optional<double> number_in(const char* path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

void look_at_host(Findings& findings) {
  ok(findings, "cores", fmt::format("{} usable", available_cores()));
  std::ifstream file("/proc/meminfo");
  double total = 0, available = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    double kib = 0;
    words >> key >> kib;
    if (key == "MemTotal:") total = kib * 1024;
    if (key == "MemAvailable:") available = kib * 1024;
  }
  // A container or a batch system may allow less than the machine has.
  std::string limit;
  if (const auto bytes = number_in("/sys/fs/cgroup/memory.max"); bytes && *bytes < total) {
    limit = fmt::format("; this process may use {}", gib(*bytes));
    const double used = number_in("/sys/fs/cgroup/memory.current").value_or(0);
    available = std::min(available, std::max(0.0, *bytes - used));
  }
  const std::string text = fmt::format("{} of {} free{}", gib(available), gib(total), limit);
  if (total > 0 && available < 512.0 * 1024 * 1024)
    note(findings, "memory", text, "large studies may not fit: close other programs, or use fewer --threads");
  else
    ok(findings, "memory", text);
}

void look_at_gpus(Findings& findings, const std::string& nvcc) {
  std::error_code error;
  const bool driver = fs::exists("/proc/driver/nvidia/version", error);
  if (!built_with_cuda()) {
    if (!driver)
      note(findings, "gpu", "none used: built without CUDA, and no NVIDIA driver is loaded",
           "nothing is missing for training on the CPU");
    else
      note(findings, "gpu", "there is an NVIDIA driver, but this crosstalk was built without CUDA",
           nvcc.empty() ? "install the CUDA toolkit, then: cmake --preset cuda && cmake --build --preset cuda"
                        : "build it with CUDA: cmake --preset cuda && cmake --build --preset cuda");
    return;
  }
  const int count = cuda_device_count();
  if (count == 0) {
    if (!driver)
      note(findings, "gpu", "no driver: no NVIDIA kernel module is loaded, so training runs on the CPU",
           "on a machine with a GPU, install its driver; in a container, start it with --gpus all");
    else
      note(findings, "gpu", "there is a driver, but this process sees no GPU; training runs on the CPU",
           "look at 'nvidia-smi' and at $CUDA_VISIBLE_DEVICES; the driver may be too old for this build");
    return;
  }
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("gpu {}", i);
    try {
      const Gpu gpu = cuda_gpu(i);
      if (gpu.code == 0) {
        note(
            findings, name, gpu.name + ", " + code_text(gpu),
            "GPUs from Ampere on can be used (build with -DCMAKE_CUDA_ARCHITECTURES=...); others are left to themselves");
        continue;
      }
      const CudaMemory memory = cuda_memory();
      const std::string text =
          fmt::format("{}, {} of {} free", gpu.name, gib(static_cast<double>(memory.free)),
                      gib(static_cast<double>(memory.total)));
      if (memory.free < memory.total / 4)
        note(findings, name, text, "another program uses it ('nvidia-smi' names it)");
      else
        ok(findings, name, text);
      if (gpu.by_driver)
        note(findings, name, code_text(gpu),
             fmt::format("the first run waits for it; a build with -DCMAKE_CUDA_ARCHITECTURES={} does not",
                         gpu.capability));
      else
        ok(findings, name, code_text(gpu));
      ok(findings, name, fused_forms_text(shared_memory_limit()));
      ok(findings, name, chunks_text());
    } catch (const DeviceError& failure) {
      problem(findings, name, failure.what(), "leave it out with $CUDA_VISIBLE_DEVICES or --device");
    }
  }
}

void look_at_nvcc(Findings& findings, const std::string& nvcc) {
  if (nvcc.empty()) {
    note(findings, "nvcc", "not found on PATH, in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda",
         "needed only to build with CUDA: install the CUDA toolkit, or set CUDA_HOME");
    return;
  }
  const Output output = output_of({nvcc, "--version"});
  const auto at = output.text.find("release ");
  if (output.status != 0 || at == std::string::npos)
    note(findings, "nvcc", nvcc + " does not run", "needed only to build with CUDA: repair the CUDA toolkit");
  else
    ok(findings, "nvcc",
       fmt::format("{}, {}", nvcc, output.text.substr(at, output.text.find_first_of(",\n", at) - at)));
}

void look_at_nvrtc(Findings& findings) {
  const Nvrtc& library = nvrtc();
  if (library.found) {
    ok(findings, "nvrtc", fmt::format("{}, {}", library.path, library.version));
  } else {
    note(findings, "nvrtc", "not found",
         "needed only for memory.form = \"compiled\" of laws: " + library.missing);
  }
}

void look_at_store(Findings& findings, const std::string& given) {
  // By default a study's store is a folder in ./runs.
  const fs::path store = given.empty() ? "runs" : given;
  try {
    check_store_path(given.empty() ? store / "of-a-study" : store);
  } catch (const StorePathError& error) {
    problem(findings, "store", error.what(), "give another folder with --out");
    return;
  }
  fs::path existing = fs::absolute(store);
  std::error_code error;
  while (!fs::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  const fs::space_info space = fs::space(existing, error);
  const std::string text = fmt::format("{} can be written", store.string());
  if (error)
    ok(findings, "store", text);
  else if (space.available < 1ull << 30)
    note(findings, "store",
         fmt::format("{}, but {} are free", text, gib(static_cast<double>(space.available))),
         "free some space, or give another folder with --out");
  else
    ok(findings, "store", fmt::format("{}, {} free", text, gib(static_cast<double>(space.available))));
}

/// The Python that draws figures, found as 'crosstalk plot' finds it.
void look_at_python(Findings& findings) {
  static const std::string script =
      "import matplotlib, importlib.util as u\n"
      "from matplotlib import font_manager as f\n"
      "print(matplotlib.__version__)\n"
      "print('yes' if u.find_spec('pandas') else 'no')\n"
      "print(f.findfont('DejaVu Sans', fallback_to_default=False))\n";
  // The user's settings count, the current folder never does.
  static const std::string elsewhere =
      "import sys; sys.path[:] = [p for p in sys.path if p.startswith('/')]\n";
  const std::vector<std::string> candidates = figure_pythons();
  const std::string chosen = environment("CROSSTALK_PYTHON");
  for (const std::string& python : candidates) {
    // Matplotlib without the font ends with an error after it has printed its version.
    Output output = output_of({python, "-I", "-c", script});
    if (output.text.empty()) output = output_of({python, "-c", elsewhere + script});
    std::istringstream lines(output.text);
    std::string matplotlib, pandas, font;
    std::getline(lines, matplotlib);
    std::getline(lines, pandas);
    std::getline(lines, font);
    if (matplotlib.empty()) continue;
    ok(findings, "python", fmt::format("{} with matplotlib {}: figures are rendered", python, matplotlib));
    if (pandas == "yes")
      ok(findings, "pandas", "found; it reads exports");
    else
      note(findings, "pandas", fmt::format("{} has none", python),
           fmt::format("only if you want to read exports with it: {} -m pip install pandas", python));
    if (output.status == 0 && !font.empty())
      ok(findings, "fonts", "DejaVu Sans");
    else
      note(findings, "fonts", "matplotlib does not find DejaVu Sans; figures take another font",
           "reinstall matplotlib, which brings it");
    return;
  }
  note(findings, "python",
       fmt::format(
           "no Python with matplotlib (tried {}{}): figures are written as tables and scripts, not rendered",
           join(candidates, ", "), chosen.empty() ? "" : ", from $CROSSTALK_PYTHON"),
       matplotlib_command() + " (or name a Python that has it in $CROSSTALK_PYTHON)");
}

/// The Python that trains PyTorch models, as 'crosstalk work' finds it.
void look_at_package(Findings& findings) {
  const PackagePython found = package_python({});
  if (found.path.empty())
    note(findings, "pytorch", found.why_none, "only for PyTorch models of your own (docs/own_model.md)");
  else
    ok(findings, "pytorch",
       fmt::format("{} with {}: 'crosstalk work' trains PyTorch models", found.path, found.versions));
}

int run_doctor(const Arguments& arguments, Console& console) {
  const std::string nvcc = find_nvcc();
  Findings findings;
  look_at_build(findings);
  look_at_host(findings);
  look_at_gpus(findings, nvcc);
  look_at_nvcc(findings, nvcc);
  if (built_with_cuda()) look_at_nvrtc(findings);
  look_at_store(findings, arguments.positional.empty() ? "" : arguments.positional[0]);
  look_at_python(findings);
  look_at_package(findings);

  std::int64_t problems = 0;
  for (const Finding& finding : findings) problems += finding.level == "problem";
  if (arguments.has("json")) {
    nlohmann::ordered_json json = {{"problems", problems}, {"findings", nlohmann::ordered_json::array()}};
    for (const Finding& f : findings)
      json["findings"].push_back(
          {{"name", f.name}, {"level", f.level}, {"text", f.text}, {"remedy", f.remedy}});
    console.out << dump(json);
  } else {
    for (const Finding& f : findings) {
      console.out << fmt::format("{:<8} {:<8} {}\n", f.level, f.name, f.text);
      if (!f.remedy.empty()) console.out << fmt::format("{:<17} -> {}\n", "", f.remedy);
    }
    console.out << (problems == 0
                        ? "\nnothing stands in the way of training\n"
                        : fmt::format("\n{} in the way of training\n", plural(problems, "problem")));
  }
  return problems == 0 ? exit_done : exit_some_failed;
}

}  // namespace

extern const Command doctor_command = {
    "doctor",
    "look at build, GPUs, store and Python, and say what to mend",
    "[STORE] [--json]",
    "Checks what training and drawing need on this machine: the build, cores and memory, GPUs and\n"
    "their driver, nvcc, whether the store (default ./runs) can be written, Python with matplotlib,\n"
    "fonts. Each line is ok, a note (training works without it) or a problem, with its remedy.\n"
    "Writes nothing.\n\n"
    "Examples:\n"
    "  crosstalk doctor\n"
    "  crosstalk doctor /scratch/me/first --json | jq .problems\n\n"
    "Exit codes: 0 nothing stops training, 1 something does.\n",
    0,
    1,
    "",
    {{"json", "", "Print JSON: problems, findings"}},
    run_doctor,
};

}  // namespace crosstalk::program
