// A study: a TOML file read, checked against the registries and expanded into runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/text/options.h"

namespace crosstalk {

/// The user's configuration is wrong (exit code 2). what() is the whole message, "path:line:col: ..." where a
/// file is to blame, "--set KEY=...: ..." where the command line is.
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One fully resolved training. `config` holds every key of every schema that applies (task.*, model.*,
/// memory.*, train.*, eval.*, seed, data_seed, init_seed), derived values filled in.
struct Run {
  std::string id;                   ///< run_id(config)
  std::string label;                ///< name of its [memories.NAME] table; the first of several
  std::vector<std::string> labels;  ///< every label of the study that comes to this configuration
  std::int64_t seed = 0;
  Options config;
  std::int64_t d_dot = 0;       ///< memory's feature dimension (0 = none)
  std::int64_t state_size = 0;  ///< floats a sequence at inference
  // Of train.keep_weights, which decides no result and is not in `config`:
  bool keep_weights = false;    ///< its final weights
  std::int64_t keep_every = 0;  ///< and those after so many steps, and twice as many, ...; 0: not
};

/// Two labels or studies name one run: the weights that either wants are kept.
inline void keep_both(Run& run, const Run& other) {
  run.keep_weights |= other.keep_weights;
  if (run.keep_every == 0 || (other.keep_every > 0 && other.keep_every < run.keep_every))
    run.keep_every = other.keep_every;
}

/// A label of a study, and the name that figures and tables give it ("" = the label itself).
struct StudyLabel {
  std::string label, title;
};

/// An expanded study: runs without duplicates, in file order. One configuration is one run, whatever the
/// number of labels that name it.
struct Study {
  std::string name, title;
  std::vector<StudyLabel> labels;  ///< those that have runs, in file order
  std::string text;                ///< the file, verbatim
  std::string bare;     ///< end of product: "; bare, for their authors' layer is not known: A, B", or ""
  std::string product;  ///< "8 memories x 30 loads x 5 seeds = 1200 runs", one term a block
  std::vector<Run> runs;
};

struct StudyOptions {
  std::vector<std::string> set;  ///< --set KEY=VALUE[,VALUE]
  std::int64_t max_runs = 100000;
};

/// Reads and expands. Throws ConfigError.
Study read_study(const std::filesystem::path& path, const StudyOptions& options = {});
/// Same, from text; `path` is only for messages.
Study parse_study(const std::string& text, const std::string& path, const StudyOptions& options = {});

/// "ct-" + XXH3-128 (32 hex digits) of the canonical text of `config`: keys sorted, keys at their registered
/// neutral value left out, numbers normalised, plus the `semantics` number.
std::string run_id(const Options& config);

/// Bumped when numerics change on purpose.
inline constexpr int kSemantics = 5;

}  // namespace crosstalk
