// SPDX-License-Identifier: Apache-2.0
#include "python/core/plan.h"

#include <fmt/format.h>

#include <limits>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_borrowed.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "python/core/kept.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

/// What an equation would take without a word.
enum Flaw { kNotFinite = 1, kPositive = 2, kAboveOne = 4 };

/// The largest of whole numbers that are the bits of floats: as they are, and without their signs. Floats and their bits have one
/// order where they are positive.
template <class Bits>
std::pair<Bits, Bits> largest_bits(const void* from, std::int64_t n) {
  using Word __attribute__((may_alias)) = Bits;
  const auto* words = static_cast<const Word*>(from);
  constexpr Bits size = std::numeric_limits<Bits>::max();
  Bits largest = 0, longest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    largest = std::max<Bits>(largest, words[i]);
    longest = std::max<Bits>(longest, words[i] & size);
  }
  return {largest, longest};
}

/// Looks at numbers, and copies them first where there is a `to`.
template <class Real>
int look(const Exec& exec, const Real* from, Real* to, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
  constexpr Bits infinite = sizeof(Real) == 4 ? Bits{0x7f800000} : static_cast<Bits>(0x7ff0000000000000);
  constexpr Bits one = sizeof(Real) == 4 ? Bits{0x3f800000} : static_cast<Bits>(0x3ff0000000000000);
  constexpr std::int64_t kBlock = std::int64_t{1} << 14;
  std::vector<int> flaws(static_cast<std::size_t>((n + kBlock - 1) / kBlock), 0);
  parallel_blocks(exec, 1, n, kBlock, [&](int, std::int64_t begin, std::int64_t end) {
    if (to) std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(Real));
    const auto [largest, longest] = largest_bits<Bits>((to ? to : from) + begin, end - begin);
    flaws[static_cast<std::size_t>(begin / kBlock)] = (longest >= infinite ? kNotFinite : 0) |
                                                      (largest > 0 ? kPositive : 0) |
                                                      (longest > one ? kAboveOne : 0);
  });
  int all = 0;
  for (const int flaw : flaws) all |= flaw;
  return all;
}

using Given = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

Place found(const Call& call, const std::string& what, const std::string& name) {
  std::optional<Place> place = call.find(what, name);
  if (!place) throw std::logic_error(fmt::format("the plan has no {} {}", what, name));
  return *place;
}

/// The place that an array goes to or comes from. Throws TypeError, ValueError.
Place fitting(const Call& call, const std::string& what, const std::string& name, const auto& array) {
  const Place place = found(call, what, name);
  const bool precise = call.plan().word() == 8;
  if (array.dtype() != (precise ? nb::dtype<double>() : nb::dtype<float>()))
    throw nb::type_error(fmt::format("{} must be float{}", name, precise ? 64 : 32).c_str());
  if (array.size() != place.size())
    throw nb::value_error(
        fmt::format("{} has {} numbers; expected {}", name, array.size(), place.size()).c_str());
  return place;
}

/// A thread for each so many bytes, where the work is about as long as to go through them: for less, to begin and to wait for it costs
/// more than it does, on a busy machine a hundred times so.
constexpr std::size_t kBytesOfAThread = std::size_t{1} << 19;

int threads_of(int most, std::size_t bytes) {
  return static_cast<int>(
      std::clamp<std::size_t>(bytes / kBytesOfAThread, 1, static_cast<std::size_t>(std::max(1, most))));
}

/// Arrays below this are copied: a copy costs less than to change where a plan looks.
constexpr std::size_t kSmall = std::size_t{1} << 16;

/// Results are those of an arena to the bit: sums may start where a vector register's worth is aligned.
bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % Recycled::kAlignment == 0; }

/// Fills a place, or, where `borrow` asks for it and the memory suits, makes that the place; whoever calls keeps it then as it is.
/// What was borrowed before is let go and not written. Gives the flaws of the numbers.
int fill(const Call& call, const std::string& what, const std::string& name, Place place, const void* from,
         int threads, bool& borrow) {
  const std::size_t bytes = place.size() * call.plan().word();
  borrow = borrow && is_aligned(from) && bytes >= kSmall && call.bind(what, name, const_cast<void*>(from));
  if (!borrow && call.plan().is_bound() && call.bind(what, name, nullptr)) place = found(call, what, name);
  void* to = borrow ? nullptr : place.data;
  const auto n = static_cast<std::int64_t>(place.size());
  const Exec exec = Where{}.exec(threads_of(threads, bytes));
  const auto row = static_cast<std::int64_t>(place.row());
  const auto stride = static_cast<std::int64_t>(place.stride);
  const auto look_at = [&](auto* source, auto* target) {
    if (target == nullptr || row == stride || place.rows == 1) return look(exec, source, target, n);
    int all = 0;
    for (std::int64_t r = 0; r * row < n; ++r) all |= look(exec, source + r * row, target + r * stride, row);
    return all;
  };
  if (call.plan().word() == 8) return look_at(static_cast<const double*>(from), static_cast<double*>(to));
  return look_at(static_cast<const float*>(from), static_cast<float*>(to));
}

/// The same of an array: flaws, and whether it is borrowed.
nb::tuple put(const Call& call, const std::string& what, const std::string& name, const Given& array,
              int threads, bool borrow) {
  const Place place = fitting(call, what, name, array);
  const void* from = array.data();
  int flaws = 0;
  {
    const nb::gil_scoped_release release;
    flaws = fill(call, what, name, place, from, threads, borrow);
  }
  return nb::make_tuple(flaws, borrow);
}

nb::object result_of(const Call& call, const Place& place, void* memory) {
  const std::size_t bytes = place.size() * call.plan().word();
  struct Kept {
    void* memory;
    std::size_t bytes;
  };
  nb::capsule owner(new Kept{memory, bytes}, [](void* p) noexcept {
    const std::unique_ptr<Kept> kept(static_cast<Kept*>(p));
    Recycled::instance().give(kept->memory, kept->bytes);
  });
  if (call.plan().word() == 8)
    return nb::cast(nb::ndarray<nb::numpy, double>(memory, place.shape.size(), place.shape.data(), owner));
  return nb::cast(nb::ndarray<nb::numpy, float>(memory, place.shape.size(), place.shape.data(), owner));
}

/// A new array that a place is from now on, or None where there is no such place or it has to stay.
nb::object bound(const Call& call, const std::string& what, const std::string& name) {
  const std::optional<Place> place = call.find(what, name);
  const std::size_t bytes = place ? place->size() * call.plan().word() : 0;
  if (bytes < kSmall) return nb::none();
  void* memory = Recycled::instance().take(bytes);
  nb::object array = result_of(call, *place, memory);
  if (!call.bind(what, name, memory)) return nb::none();
  return array;
}

/// A copy of a place as a new array; None: there is none.
nb::object take(const Call& call, const std::string& what, const std::string& name, int threads) {
  const std::optional<Place> place = call.find(what, name);
  if (!place) return nb::none();
  const std::size_t size = place->size() * call.plan().word();
  void* memory = Recycled::instance().take(size);
  nb::object array = result_of(call, *place, memory);
  auto* to = static_cast<char*>(memory);
  const auto* from = static_cast<const char*>(place->data);
  const Exec exec = Where{}.exec(threads_of(threads, size));
  const nb::gil_scoped_release release;
  const std::size_t row = size / place->rows;
  const std::size_t pitch = place->rows == 1 ? row : place->stride * call.plan().word();
  const std::size_t pieces = pitch == row ? 1 : place->rows;
  for (std::size_t r = 0; r < pieces; ++r)
    parallel_blocks(exec, 1, static_cast<std::int64_t>(size / pieces), std::int64_t{1} << 17,
                    [&](int, std::int64_t begin, std::int64_t end) {
                      std::memcpy(to + r * row + begin, from + r * pitch + begin,
                                  static_cast<std::size_t>(end - begin));
                    });
  return array;
}

/// A forward pass on the host: (o, states by name, flaws of each input), without o and states where a number is not finite. The
/// caller has seen to type, size and order of what lies at the pointers.
nb::tuple once(const Recipe& recipe, const std::vector<std::string>& names,
               const std::vector<std::uintptr_t>& pointers, int threads) {
  const Call call = [&] {
    const nb::gil_scoped_release release;
    return Call(recipe, 0, Where{});
  }();
  std::vector<int> flaws;
  {
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < names.size(); ++i) {
      bool borrow = true;
      flaws.push_back(fill(call, "input", names[i], found(call, "input", names[i]),
                           reinterpret_cast<const void*>(pointers.at(i)), threads, borrow));
    }
  }
  nb::dict states;
  if (std::any_of(flaws.begin(), flaws.end(), [](int flaw) { return (flaw & kNotFinite) != 0; }))
    return nb::make_tuple(nb::none(), states, flaws);
  nb::object o = bound(call, "output", "o");
  const std::vector<std::string> ends = call.plan().states();
  for (const std::string& name : ends) states[name.c_str()] = bound(call, "state", name);
  call.pass(threads, false);
  if (o.is_none()) o = take(call, "output", "o", threads);
  for (const std::string& name : ends)
    if (states[name.c_str()].is_none()) states[name.c_str()] = take(call, "state", name, threads);
  const bool flawed = std::any_of(flaws.begin(), flaws.end(), [](int flaw) { return flaw != 0; });
  return nb::make_tuple(o, states, flawed ? nb::cast(flaws) : nb::none());
}

/// The same with memory of the plan's device, in the order of its stream. The caller has seen to type, size and device.
void move_on_device(const Call& call, const std::string& what, const std::string& name,
                    std::uintptr_t pointer, bool in) {
  const Place place = found(call, what, name);
  const OnDevice on(call.where());
  const std::size_t word = call.plan().word(), row = place.row() * word;
  const PitchedMemory theirs{reinterpret_cast<void*>(pointer), row};
  const PitchedMemory ours{place.data, place.rows == 1 ? row : place.stride * word};
  auto* stream = reinterpret_cast<void*>(call.where().stream);
  cuda_copy_in_order(stream, in ? ours : theirs, in ? theirs : ours, row, place.rows);
}

/// Makes memory of the caller that of a place, or, where it has to stay, copies from there. Returns whether it is borrowed: whoever
/// calls keeps it then as it is, in the order of the stream.
bool put_on_device(const Call& call, const std::string& what, const std::string& name, std::uintptr_t pointer,
                   bool borrow) {
  auto* data = reinterpret_cast<void*>(pointer);
  if (borrow && is_aligned(data) && call.bind(what, name, data)) return true;
  call.bind(what, name, nullptr);
  move_on_device(call, what, name, pointer, true);
  return false;
}

/// Makes memory of the caller that of a place that a pass is going to write; false: take_on_device() copies it afterwards.
bool bound_on_device(const Call& call, const std::string& what, const std::string& name,
                     std::uintptr_t pointer) {
  auto* data = reinterpret_cast<void*>(pointer);
  return is_aligned(data) && call.find(what, name) && call.bind(what, name, data);
}

/// A forward pass on a GPU, all of it in one call: from memory of the caller for the inputs to memory of the caller for o and the
/// states, in the order of the stream. The caller has seen to type, size and device.
void once_on_device(const Recipe& recipe, int device, std::uintptr_t stream,
                    const std::vector<std::string>& names, const std::vector<std::uintptr_t>& pointers,
                    const std::vector<std::string>& results, const std::vector<std::uintptr_t>& targets) {
  const Where where = where_of(device, stream);
  const nb::gil_scoped_release release;
  const OnDevice on(where);
  const Call call(recipe, 0, where);
  for (std::size_t i = 0; i < names.size(); ++i) put_on_device(call, "input", names[i], pointers.at(i), true);
  std::vector<bool> is_bound;
  for (std::size_t i = 0; i < results.size(); ++i)
    is_bound.push_back(bound_on_device(call, i == 0 ? "output" : "state", results[i], targets.at(i)));
  call.run(1, false);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!is_bound[i]) move_on_device(call, i == 0 ? "output" : "state", results[i], targets[i], false);
}

/// Memory of a GPU for results, where whoever calls has no arrays of its own.
class DeviceArray {
 public:
  DeviceArray(std::vector<std::int64_t> shape, const std::string& type, int device, std::uintptr_t stream)
      : shape_(std::move(shape)),
        type_(type == "float64"   ? "<f8"
              : type == "float32" ? "<f4"
                                  : "<i4"),
        where_(where_of(device, stream)) {
    std::size_t n = type == "float64" ? 8 : 4;
    for (const std::int64_t d : shape_) n *= static_cast<std::size_t>(d);
    const OnDevice on(where_);
    memory_ = Buffer(Device::cuda, std::max<std::size_t>(n, 1));
  }
  ~DeviceArray() {
    try {
      const OnDevice on(where_);
      cuda_wait_for(stream());         // others get its memory
    } catch (const std::exception&) {  // a device that failed has been told of where it did
    }
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  /// Zeros, in the order of the stream.
  void clear() {
    const OnDevice on(where_);
    cuda_zero_in_order(stream(), memory_.data(), memory_.bytes());
  }
  nb::dict interface() const {
    nb::dict all;
    all["shape"] = nb::tuple(nb::cast(shape_)), all["typestr"] = type_, all["version"] = 3;
    all["strides"] = nb::none(), all["stream"] = where_.stream;
    all["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory_.data()), false);
    return all;
  }
  nb::tuple shape() const { return nb::tuple(nb::cast(shape_)); }
  std::string dtype() const { return type_ == "<f8" ? "float64" : type_ == "<f4" ? "float32" : "int32"; }
  /// A copy on the host, an array of numpy; waits for the stream.
  nb::object on_host() const {
    const OnDevice on(where_);
    cuda_wait_for(stream());
    std::vector<char> bytes(memory_.bytes());
    memory_.copy_to_host(bytes.data(), bytes.size());
    const nb::object flat = array_of(std::move(bytes));
    return flat.attr("view")(dtype()).attr("reshape")(shape());
  }

 private:
  void* stream() const { return reinterpret_cast<void*>(where_.stream); }
  std::vector<std::int64_t> shape_;
  std::string type_;
  Where where_;
  Buffer memory_;
};

nb::object shape(const Call& call, const std::string& what, const std::string& name) {
  const std::optional<Place> place = call.find(what, name);
  return place ? nb::cast(place->shape) : nb::none();
}

}  // namespace

OnDevice::OnDevice(const Where& where) {
  if (where.device == Device::cuda) guard_ = std::make_unique<CudaDeviceGuard>(where.index);
}
OnDevice::~OnDevice() = default;

std::string Where::text() const {
  return device == Device::cpu ? "cpu" : fmt::format("cuda {} {}", index, stream);
}

Exec Where::exec(int threads) const {
  Exec exec;
  exec.device = device, exec.threads = std::max(1, threads);
  exec.stream = device == Device::cuda ? reinterpret_cast<void*>(stream) : nullptr;
  return exec;
}

Where where_of(int device, std::uintptr_t stream) {
  if (device < 0) return {};
  if (!built_with_cuda())
    throw DeviceError(
        "this crosstalk was built without CUDA: tensors must be on the CPU, for example q.cpu()");
  return {Device::cuda, device, stream};
}

Precision precision_of(const std::string& name) {
  return name == "tf32" ? Precision::tf32 : name == "bf16" ? Precision::bf16 : Precision::full;
}

Call::Call(const Recipe& recipe, int gradients, const Where& where)
    : key_(fmt::format("{} {} {}", gradients, where.text(), recipe.key)),
      where_(where),
      plan_(Pool::instance().take(key_)) {
  if (plan_) return;
  const OnDevice on(where_);
  plan_ = recipe.make(where_.device, gradients);
}

Call::~Call() {
  if (!plan_) return;
  plan_->unbind();
  Pool::instance().give(key_, where_, std::move(plan_));
}

std::optional<Place> Call::find(const std::string& what, const std::string& name) const {
  if (what == "input") return plan_->input(name);
  if (what == "gradient") return plan_->gradient(name);
  if (what == "output") return plan_->output();
  if (what == "cotangent") return plan_->cotangent();
  if (what == "state") return plan_->state(name);
  if (what == "end_cotangent") return plan_->end_cotangent(name);
  throw std::logic_error("a plan has no " + what);
}

void Call::pass(int threads, bool back) const {
  const nb::gil_scoped_release release;
  run(threads, back);
}

void Call::run(int threads, bool back) const {
  const OnDevice on(where_);
  const Exec exec = where_.exec(threads_of(threads, plan_->bytes()));
  if (back)
    plan_->backward(exec);
  else
    plan_->forward(exec);
}

void bind_plan(nb::module_& m) {
  m.def("release", [] {
    const nb::gil_scoped_release release;
    Pool::instance().clear();
    Recycled::instance().clear();
  });
  m.def("pooled", [] {
    const auto [plans, bytes] = Pool::instance().size();
    return nb::make_tuple(plans, bytes);
  });
  m.def("built_with_cuda", &built_with_cuda);
  m.def("cuda_devices", &cuda_device_count);
  m.def("device_of", [](std::uintptr_t p) { return cuda_device_of(reinterpret_cast<const void*>(p)); });
  nb::class_<DeviceArray>(m, "DeviceArray")
      .def(nb::init<std::vector<std::int64_t>, const std::string&, int, std::uintptr_t>(), "shape"_a,
           "dtype"_a, "device"_a, "stream"_a)
      .def("clear", &DeviceArray::clear)
      .def("numpy", &DeviceArray::on_host)
      .def_prop_ro("shape", &DeviceArray::shape)
      .def_prop_ro("dtype", &DeviceArray::dtype)
      .def_prop_ro("__cuda_array_interface__", &DeviceArray::interface);
  nb::class_<Recipe>(m, "Recipe")
      .def(
          "call",
          [](const Recipe& recipe, int gradients, int device, std::uintptr_t stream) {
            const Where where = where_of(device, stream);
            const nb::gil_scoped_release release;
            return std::make_unique<Call>(recipe, gradients, where);
          },
          "gradients"_a, "device"_a = -1, "stream"_a = 0)
      .def("once", &once, "names"_a, "pointers"_a, "threads"_a)
      .def("once_on_device", &once_on_device, "device"_a, "stream"_a, "names"_a, "pointers"_a, "results"_a,
           "targets"_a);
  nb::class_<Call>(m, "Call")
      .def(
          "put", &put, "what"_a, "name"_a, "array"_a.noconvert(), "threads"_a, "borrow"_a,
          "Flaws of the numbers (1 not finite, 2 positive, 4 larger than 1), and whether the array is borrowed.")
      .def("bound", &bound, "what"_a, "name"_a)
      .def("take", &take, "what"_a, "name"_a, "threads"_a)
      .def("put_on_device", &put_on_device, "what"_a, "name"_a, "pointer"_a, "borrow"_a,
           "Whether the memory is borrowed.")
      .def("bound_on_device", &bound_on_device, "what"_a, "name"_a, "pointer"_a)
      .def(
          "take_on_device",
          [](const Call& call, const std::string& what, const std::string& name, std::uintptr_t pointer) {
            move_on_device(call, what, name, pointer, false);
          },
          "what"_a, "name"_a, "pointer"_a)
      .def("shape", &shape, "what"_a, "name"_a, "None: there is none.")
      .def_prop_ro("states", [](const Call& call) { return call.plan().states(); })
      .def(
          "forward", [](const Call& call, int threads) { call.pass(threads, false); }, "threads"_a)
      .def(
          "backward", [](const Call& call, int threads) { call.pass(threads, true); }, "threads"_a)
      .def_prop_ro("bytes", [](const Call& call) { return call.plan().bytes(); });
}

}  // namespace crosstalk::python
