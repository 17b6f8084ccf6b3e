// The module crosstalk._core: what the Python package needs of the libraries of the program. Private: people use the package.
// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include <algorithm>

#include "experiments/common/command.h"
#include "experiments/common/version.h"
#include "experiments/study/study.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "python/core/convert.h"
#include "results/store/store.h"

namespace crosstalk::python {
namespace {

/// Exceptions of the package: each says what the program would.
struct Errors {
  nb::object option, config, store, device, memory;
};

nb::object new_error(nb::module_& m, const char* name, PyObject* base) {
  const std::string whole = std::string("crosstalk.") + name;
  nb::object error = nb::steal(PyErr_NewException(whole.c_str(), base, nullptr));
  m.attr(name) = error;
  return error;
}

void bind_errors(nb::module_& m) {
  static auto* errors = new Errors;  // the translator may be called as long as the interpreter lives
  errors->option = new_error(m, "OptionError", PyExc_ValueError);
  errors->config = new_error(m, "ConfigError", PyExc_ValueError);
  errors->store = new_error(m, "StoreError", PyExc_OSError);
  errors->device = new_error(m, "DeviceError", PyExc_RuntimeError);
  errors->memory = new_error(m, "OutOfMemory", errors->device.ptr());
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const OptionError& e) {
      nb::object error = errors->option(e.what());
      error.attr("key") = e.key;
      PyErr_SetObject(errors->option.ptr(), error.ptr());
    } catch (const ConfigError& e) {
      PyErr_SetString(errors->config.ptr(), e.what());
    } catch (const program::UsageError& e) {
      PyErr_SetString(errors->config.ptr(), e.what());
    } catch (const StoreError& e) {
      PyErr_SetString(errors->store.ptr(), e.what());
    } catch (const StorePathError& e) {
      PyErr_SetString(errors->store.ptr(), e.what());
    } catch (const OutOfMemory& e) {
      PyErr_SetString(errors->memory.ptr(), e.what());
    } catch (const DeviceError& e) {
      PyErr_SetString(errors->device.ptr(), e.what());
    }
  });
}

}  // namespace
}  // namespace crosstalk::python

NB_MODULE(_core, m) {
  using namespace crosstalk::python;
  nb::set_leak_warnings(false);  // tensors that live as long as the process keep plans
  bind_errors(m);
  bind_plan(m);
  bind_apply(m);
  bind_layer(m);
  bind_task(m);
  bind_study(m);
  bind_rows(m);
  bind_course(m);
  m.attr("version") = crosstalk::version().version;
  // What OMP_NUM_THREADS and torch.set_num_threads() have set is meant for us too.
  m.def("cores", [] { return std::min(crosstalk::available_cores(), omp_get_max_threads()); });
}
