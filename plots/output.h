// Writing a figure's files and running its script.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace crosstalk {

/// `base` + ".csv" and so on; base's own dots stay.
std::filesystem::path with_extension(const std::filesystem::path& base, const std::string& extension);

/// Writes NAME.csv, NAME.py and NAME.caption.txt, each whole or not at all (temporary file, then rename). A script that was
/// edited since it was written is kept, and a note says so. Throws std::runtime_error for a place that cannot
/// be written and for files of these names that are not a figure's.
void write_figure_files(const std::filesystem::path& base, const std::string& csv, const std::string& script,
                        const std::string& caption, std::ostream& notes);

/// NAME.py alone, likewise.
void write_figure_script(const std::filesystem::path& base, const std::string& script, std::ostream& notes);

/// Runs NAME.py with the first of figure_pythons() that has matplotlib. Returns the files that it wrote
/// (NAME.pdf, NAME.png); where there are none, `notes` says why and how to render by hand.
std::vector<std::filesystem::path> render_figure(const std::filesystem::path& base, std::ostream& notes);

}  // namespace crosstalk
