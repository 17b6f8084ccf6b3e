// Folders of files for the tests: for task `file` writes, swaps and identities, read in between and at the end; for task
// `tokens` sequences of single tokens with labels, for `text` letters.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <stdexcept>

#include "kernels/base/random.h"
#include "kernels/base/text/npy.h"
#include "tasks/testing.h"

namespace crosstalk::testing {

/// A folder that goes with the process.
class ExampleFolder {
 public:
  ExampleFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "crosstalk_file_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ExampleFolder(const ExampleFolder&) = delete;
  ExampleFolder& operator=(const ExampleFolder&) = delete;
  ~ExampleFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The arrays of one split.
struct ExampleFiles {
  NpyArray<std::int64_t> tokens, query, position, target;
};

/// N sequences of T tokens over 6 keys and 5 values with 3 query slots, the last of which is unused in every other
/// sequence.
inline ExampleFiles example_files(std::uint64_t seed, std::int64_t N, std::int64_t T) {
  constexpr std::int64_t Q = 3;
  constexpr std::uint32_t keys = 6, values = 5;
  ExampleFiles files{{{N, T, 3}, {}}, {{N, Q}, {}}, {{N, Q}, {}}, {{N, Q}, {}}};
  RandomStream random(seed, RandomDomain::task_train, 0);
  for (std::int64_t n = 0; n < N; ++n) {
    std::map<std::int64_t, std::int64_t> bound;
    const auto key_written = [&] {
      auto at = bound.begin();
      std::advance(at, random.below(static_cast<std::uint32_t>(bound.size())));
      return at->first;
    };
    for (std::int64_t t = 0, asked = 0; t < T; ++t) {
      std::int64_t key = random.below(keys), value = random.below(values), second = -1;
      if (t > 1 && random.below(4) == 0) {
        key = key_written(), second = key_written(), value = -1;
        std::swap(bound[key], bound[second]);
      } else {
        bound[key] = value;
      }
      files.tokens.data.insert(files.tokens.data.end(), {key, value, second});
      const bool last = t + 1 == T;
      if (asked < Q - 1 && !last && t != T / 2)
        continue;  // asked in the middle and, in what is left, at the end
      for (const std::int64_t end = last ? Q : asked + 1; asked < end; ++asked) {
        const bool unused = asked == Q - 1 && n % 2 == 1;
        const std::int64_t read = last ? std::next(bound.begin(), asked == Q - 1)->first : key_written();
        files.query.data.push_back(read);
        files.position.data.push_back(t + 1);
        files.target.data.push_back(unused ? -1 : bound[read]);
      }
    }
  }
  return files;
}

inline void write_example(const std::string& folder, const std::string& split, const ExampleFiles& files) {
  const auto path = [&](const char* name) { return folder + "/" + split + "_" + name + ".npy"; };
  write_npy(path("tokens"), files.tokens);
  write_npy(path("query"), files.query);
  write_npy(path("position"), files.position);
  write_npy(path("target"), files.target);
}

/// Examples of two inputs and their outputs as somebody's arrays have them, in `Real` numbers.
template <class Real>
inline void write_examples(const std::string& folder, const std::string& split, std::int64_t N,
                           std::int64_t T, std::int64_t Q, bool column) {
  RandomStream random(static_cast<std::uint64_t>(N), RandomDomain::task_train, 0);
  const auto put = [&](const char* name, std::vector<std::int64_t> shape) {
    NpyArray<Real> array{shape, {}};
    std::int64_t size = 1;
    for (const std::int64_t one : shape) size *= one;
    for (std::int64_t i = 0; i < size; ++i)  // in sixteenths, which floats hold
      array.data.push_back(static_cast<Real>((random.below(129) - 64.0) / 16));
    write_npy(folder + "/" + split + "_" + name + ".npy", array);
  };
  put("x", {N, T, 2});
  put("y", column ? std::vector{N, T, std::int64_t{1}} : std::vector{N, T});
  put("asked_x", {N, Q, 2});
  put("asked_y", column ? std::vector{N, Q, std::int64_t{1}} : std::vector{N, Q});
}

/// Examples of real numbers.
inline const std::string& example_real_folder() {
  static const ExampleFolder folder;
  static const bool written = [] {
    for (const auto& [split, N] : {std::pair{"train", 96}, {"eval", 64}, {"test", 64}})
      write_examples<double>(folder.path(), split, N, 9, 5, false);
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

/// The folder, written at the first call.
inline const std::string& example_folder() {
  static const ExampleFolder folder;
  static const bool written = [] {
    write_example(folder.path(), "train", example_files(1, 96, 12));
    write_example(folder.path(), "eval", example_files(2, 64, 16));
    write_example(folder.path(), "test", example_files(3, 64, 16));
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

/// Labels of one split for task `tokens`: N sequences of T tokens below 7; from the second token on the label of every third
/// token, and of every token of odd sequences, is the sum with the token before modulo 5.
struct ExampleTokens {
  NpyArray<std::int64_t> inputs, labels;
};
inline ExampleTokens example_tokens(std::uint64_t seed, std::int64_t N, std::int64_t T) {
  ExampleTokens files{{{N, T}, {}}, {{N, T}, {}}};
  RandomStream random(seed, RandomDomain::task_train, 0);
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t t = 0, before = 0; t < T; ++t) {
      const std::int64_t token = random.below(7);
      files.inputs.data.push_back(token);
      files.labels.data.push_back(t > 0 && (t % 3 == 1 || n % 2 == 1) ? (token + before) % 5
                                  : n % 4 == 0                        ? -1
                                                                      : -100);
      before = token;
    }
  return files;
}
inline void write_example(const std::string& folder, const std::string& split, const ExampleTokens& files) {
  write_npy(folder + "/" + split + "_inputs.npy", files.inputs);
  write_npy(folder + "/" + split + "_labels.npy", files.labels);
}
inline const std::string& example_token_folder() {
  static const ExampleFolder folder;
  static const bool written = [] {
    write_example(folder.path(), "train", example_tokens(1, 96, 12));
    write_example(folder.path(), "eval", example_tokens(2, 64, 16));
    write_example(folder.path(), "test", example_tokens(3, 64, 16));
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

/// A file of 40,000 letters a .. d, each of which is most often followed by the next one.
inline std::string example_text_folder() {
  static const ExampleFolder folder;
  static const bool written = [] {
    RandomStream random(4, RandomDomain::task_train, 0);
    std::string text = "a";
    while (text.size() < 40000)
      text += static_cast<char>('a' + (text.back() - 'a' + (random.below(4) > 0 ? 1u : random.below(4))) % 4);
    std::ofstream(folder.path() + "/text.txt") << text;
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

[[maybe_unused]] inline const bool file_has_its_example = [] {
  needs()["file"] = [] { return Settings{{"folder", example_folder()}}; };
  needs()["tokens"] = [] { return Settings{{"folder", example_token_folder()}}; };
  needs()["text"] = [] { return Settings{{"folder", example_text_folder()}, {"length", std::int64_t{16}}}; };
  return true;
}();

}  // namespace crosstalk::testing
