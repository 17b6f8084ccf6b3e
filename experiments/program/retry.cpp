// crosstalk retry: train again what failed.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/run.h"

namespace crosstalk::program {

extern const Command retry_command = {
    "retry",
    "train again the runs of a study that failed",
    "STUDY.toml [--out STORE] [--only RUNID]... [OPTIONS]",
    "Trains again the runs of the study whose record in the store says failed. A record that is done\n"
    "replaces the failed one in exports; nothing is deleted.\n\n"
    "Examples:\n"
    "  crosstalk retry experiments/quickstart.toml\n"
    "  crosstalk retry my.toml --out /scratch/me/first --only ct-3f2a --pack 1\n",
    1,
    1,
    "needs a study file, for example: crosstalk retry experiments/quickstart.toml",
    training_options(),
    [](const Arguments& arguments, Console& console) {
      return train_study(arguments, Which::failed, console);
    },
};

}  // namespace crosstalk::program
