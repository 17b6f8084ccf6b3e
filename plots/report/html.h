// Text of studies and tables as HTML and SVG: nothing in it acts.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace crosstalk {

/// Text that holds no formula, for content and for quoted attributes.
std::string html(std::string_view text);
/// Mathtext (words, and formulas between $) for content of HTML, with <sub> and <sup>.
std::string html_of(const std::string& mathtext);
/// The same for a <text> of SVG, with <tspan>.
std::string svg_of(const std::string& mathtext);
/// The same as plain characters, which html() must still make safe: "d_dot = 64".
std::string plain_of(const std::string& mathtext);
/// JSON for the inside of a <script>: no text in it ends the element or opens a comment.
std::string script_json(const nlohmann::ordered_json& value);

}  // namespace crosstalk
