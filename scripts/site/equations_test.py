#!/usr/bin/env python3
"""Equations as MathML: scripts, roots, sums, words, and that every element is closed."""
# SPDX-License-Identifier: Apache-2.0
import unittest
import xml.etree.ElementTree as xml

from equations import mathml, split


def shown(text):
    """What is seen, in order, of one equation."""
    return "".join(xml.fromstring(mathml(text).replace("&nbsp;", " ")).itertext())


class Equations(unittest.TestCase):
    def test_scripts_stand_below_and_above(self):
        made = mathml("S_t = alpha_t S_{t-1} + v_t k_t^T")
        self.assertIn("<msub><mi>α</mi><mi>t</mi></msub>", made)
        self.assertIn("<msub><mi>S</mi><mrow><mi>t</mi><mo>−</mo><mn>1</mn></mrow></msub>", made)
        self.assertIn("<msubsup><mi>k</mi><mi>t</mi><mo>⊤</mo></msubsup>", made)

    def test_sums_roots_and_groups(self):
        made = mathml("o = sum_{j<t} e^{s_j} v_j / sqrt(d_key)")
        self.assertIn("<munder><mo>∑</mo><mrow><mi>j</mi><mo>&lt;</mo><mi>t</mi></mrow></munder>", made)
        self.assertIn("<msqrt><msub><mi>d</mi><mi>key</mi></msub></msqrt>", made)

    def test_names_and_words_stay_whole(self):
        self.assertIn("<mi>log rate</mi>", mathml("a = e^log_rate"))
        self.assertEqual(shown("o = S q with none"), "o=Sq with none ")
        self.assertIn("<mi>a</mi>", mathml("b = 2 a"))

    def test_equations_end_at_commas_outside_of_brackets(self):
        self.assertEqual(split("S' = f(a, b), S_e,t = S', o = S q"), ["S' = f(a, b)", "S_e,t = S'", "o = S q"])
        self.assertEqual(split("r, z = W token"), ["r, z = W token"])

    def test_a_law_of_the_study_file_ends_with_its_read(self):
        self.assertEqual(split("beta = token; S = S + v k^T; read S q"), ["beta = token", "S = S + v k^T", "read S q"])
        self.assertEqual(shown("read S q"), "read Sq")
        self.assertEqual(split("angle = e^a, read N(0, 1/2)"), ["angle = e^a, read N(0, 1/2)"])
        self.assertEqual(split("o = C q, log alpha_t = g_t"), ["o = C q", "log alpha_t = g_t"])

    def test_names_stand_apart_from_their_neighbours(self):
        for text, times in {"decay A": 1, "A rate B": 2, "step_t v_t": 1, "C softmax(A q)": 1, "v_t k_t": 0, "log f": 1}.items():
            self.assertEqual(mathml(text).count("<mspace"), times, text)

    def test_small_numbers_are_powers_of_ten(self):
        self.assertIn("<msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup>", mathml("a = b + 1e-6"))
        self.assertEqual(shown("a = 2e-4 s"), "a=2·10−4s")

    def test_sentences_stay_text_and_nothing_acts(self):
        self.assertIn('<p class="law"><code>', mathml("x the token that asks is left as it is"))
        self.assertIn("a &lt; b", mathml("for all: a < b"))
        self.assertIn("<mo>&lt;</mo>", mathml("a < b"))

    def test_brackets_that_never_close_end(self):
        for text in ("((((", "S_{t", "a)", "sqrt(", "^^__", "x^"):
            xml.fromstring(f"<all>{mathml(text)}</all>".replace("&nbsp;", " "))


if __name__ == "__main__":
    unittest.main()
