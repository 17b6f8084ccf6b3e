// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <iterator>
#include <vector>

#include "kernels/base/error.h"

namespace crosstalk {
namespace {

/// The functions of nvrtc.h that are used here. A program is a handle; results are 0 where all went well.
struct Library {
  using Program = void*;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  const char* (*error)(int) = nullptr;
  Nvrtc about;

  template <class F>
  bool take(void* library, F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(library, name));
    return f != nullptr;
  }
  bool open(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    int major = 0, minor = 0;
    const bool all =
        take(library, version, "nvrtcVersion") && take(library, create, "nvrtcCreateProgram") &&
        take(library, compile, "nvrtcCompileProgram") && take(library, log_size, "nvrtcGetProgramLogSize") &&
        take(library, log, "nvrtcGetProgramLog") && take(library, cubin_size, "nvrtcGetCUBINSize") &&
        take(library, cubin, "nvrtcGetCUBIN") && take(library, destroy, "nvrtcDestroyProgram") &&
        take(library, error, "nvrtcGetErrorString");
    if (!all || version(&major, &minor) != 0) {
      dlclose(library);
      return false;
    }
    about.found = true, about.version = fmt::format("{}.{}", major, minor);
    Dl_info info{};
    about.path = dladdr(reinterpret_cast<void*>(version), &info) && info.dli_fname ? info.dli_fname : path;
    return true;
  }
};

const Library& library() {
  static const Library one = [] {
    Library out;
    std::vector<std::string> tried;
    std::vector<std::string> folders = {""};
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* home = std::getenv(variable)) folders.push_back(std::string(home) + "/lib64/");
    folders.push_back("/usr/local/cuda/lib64/");
    for (const std::string& folder : folders) {
      for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
        if (out.open(folder + name)) return out;
    }
    out.about.missing =
        "NVRTC was not found: libnvrtc.so.13 or .12 on the loader's path, in $CUDA_HOME/lib64 or in /usr/local/cuda/lib64. It comes with every CUDA "
        "toolkit, and as nvidia-cuda-nvrtc from PyPI (name its folder in LD_LIBRARY_PATH)";
    return out;
  }();
  return one;
}

}  // namespace

const Nvrtc& nvrtc() { return library().about; }

std::string compile_cuda(const std::string& source, int capability, const std::string& name) {
  const Library& lib = library();
  if (!lib.about.found) throw DeviceError(fmt::format("{} cannot be compiled: {}", name, lib.about.missing));
  struct Program {
    const Library& lib;
    void* handle = nullptr;
    ~Program() {
      if (handle) lib.destroy(&handle);
    }
  } program{lib};
  const auto check = [&](int code, const char* what) {
    if (code != 0)
      throw DeviceError(
          fmt::format("{}: NVRTC {} could not {}: {}", name, lib.about.version, what, lib.error(code)));
  };
  check(lib.create(&program.handle, source.c_str(), "law.cu", 0, nullptr, nullptr), "begin");
  const std::string architecture = fmt::format("--gpu-architecture=sm_{}", capability);
  std::vector<const char*> options = {architecture.c_str()};
  options.insert(options.end(), std::begin(kNvrtcOptions), std::end(kNvrtcOptions));
  const int code = lib.compile(program.handle, static_cast<int>(options.size()), options.data());
  if (code != 0) {
    std::size_t size = 0;
    lib.log_size(program.handle, &size);
    std::string log(size, '\0');
    if (size > 0) lib.log(program.handle, log.data());
    log.resize(std::min<std::size_t>(log.find('\0'), 1500));
    throw DeviceError(fmt::format("{}: NVRTC {} could not compile it: {}\n{}", name, lib.about.version,
                                  lib.error(code), log));
  }
  std::size_t size = 0;
  check(lib.cubin_size(program.handle, &size), "give its code");
  std::string cubin(size, '\0');
  check(lib.cubin(program.handle, cubin.data()), "give its code");
  return cubin;
}

}  // namespace crosstalk
