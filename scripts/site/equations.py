"""Equations of memories, which are plain text, as MathML: browsers draw it without a script.

    html = mathml("S_t = alpha_t S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T")
"""
# SPDX-License-Identifier: Apache-2.0
import re
from html import escape

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "kappa": "κ",
         "lambda": "λ", "mu": "μ", "nu": "ν", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω"}
WORDS = set("""a about after all an and as at away before being below binary blocks both by channels d_key digits divided each eps
    every for from gains head if in into inner_steps is its kept largest learned length lengths memories mini-batch mini-batch's none
    normalised of once one or others over own parts read_norm router same say says seen sizes slot squash start starts states sum
    than that the their them then to token tokens turns up value values wave weights which while width with without gate bounded
    asks alone batch's mini gain times key_norm row_norm attention rational released plain law laws""".split())
FUNCTIONS = set("""softmax sigmoid tanh exp log softplus relu silu gelu unit rms sqrt max min sin cos sign Diag diag LayerNorm layernorm norm grad Re
    mean""".split())
SIGNS = {"*": "⊙", "-": "−", "<=": "≤", ">=": "≥", "..": "…", ".": "·", "|": "|"}
NAMES = """log_decay log_decay_a log_decay_v erase_key erase_gate write_gate in_context_rate signed_decay A_log beta_max log_step log_rate log_angle gated_delta precond_gated_delta key_norm read_norm read_imag lower_bound inner_steps row_norm
    long_conv""".split()  # one word each, not a letter and what stands below it
TOKEN = re.compile(r"\s+|\b(?:" + "|".join(NAMES) + r")(?![A-Za-z])|<=|>=|\.\.|\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z]+(?:-batch(?:'s)?)?\d*'*|.")


def is_word(token):
    return token.rstrip("'") in WORDS and not token.endswith("''")


def tokens_of(text):
    return [(m[0], m.start()) for m in TOKEN.finditer(text)]


class Reader:
    """A formula from left to right; words between formulas stay words."""

    def __init__(self, text):
        self.tokens, self.at = [token for token, _ in tokens_of(text)], 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self):
        token = self.peek()
        self.at += 1
        return token

    def until(self, closing):
        parts = []
        while self.peek() and self.peek() != closing:
            parts.append(self.item())
        self.take()
        return "".join(parts)

    def script(self):
        """What stands below or above: a group in braces, or letters and figures."""
        if self.peek() == "{":
            self.take()
            return f"<mrow>{self.until('}')}</mrow>"
        if self.peek() == "(":
            self.take()
            return f"<mrow>{self.until(')')}</mrow>"
        if self.peek() == "-":
            self.take()
            return f"<mrow><mo>−</mo>{self.atom(self.take())}</mrow>"
        token = self.take()
        made = "<mo>⊤</mo>" if token == "T" else self.atom(token)
        if self.peek() == "," and self.next_of(1).isalnum():  # S_e,t-1
            rest = [self.take(), self.take()]
            while self.peek() in ("-", "+") and self.next_of(1).isalnum():
                rest += [self.take(), self.take()]
            made = f"<mrow>{made}{''.join(self.atom(one) for one in rest)}</mrow>"
        return made

    def before_script(self, at):
        """Whether what ends before `at` is a long name with something below or above it: step_t."""
        return at >= 3 and self.tokens[at - 2] in ("_", "^") and re.fullmatch(r"[A-Za-z]{3,}", self.tokens[at - 3]) \
            and self.tokens[at - 3] not in GREEK and not is_word(self.tokens[at - 3])

    def next_of(self, ahead):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    @staticmethod
    def atom(token):
        if token in NAMES:
            return f"<mi>{token.replace('_', ' ')}</mi>"
        small = re.fullmatch(r"([\d.]+)e(-?)(\d+)", token)
        if small:
            factor = f"<mn>{small[1]}</mn><mo>·</mo>" if small[1] != "1" else ""
            return f"<mrow>{factor}<msup><mn>10</mn><mrow>{'<mo>−</mo>' if small[2] else ''}<mn>{small[3]}</mn></mrow></msup></mrow>"
        if re.fullmatch(r"\d.*", token):
            return f"<mn>{token}</mn>"
        name, marks = token.rstrip("'"), "′" * (len(token) - len(token.rstrip("'")))
        letters = re.fullmatch(r"([A-Za-z]+)(\d*)", name)
        if not letters:
            return f"<mo>{escape(SIGNS.get(token, token))}</mo>"
        base, figures = letters[1], letters[2]
        if re.fullmatch(r"[a-z]{2}", base) and base not in FUNCTIONS and base not in GREEK and base not in WORDS:
            made = "".join(f"<mi>{letter}</mi>" for letter in base)  # two indices: v_tn
            made = f"<mrow>{made}</mrow>"
        else:
            made = f"<mi>{escape(GREEK.get(base, base))}</mi>"
        if figures:
            made = f"<msub>{made}<mn>{figures}</mn></msub>"
        return f"<msup>{made}<mo>{marks}</mo></msup>" if marks else made

    def scripts(self, base, tall=False):
        below = above = None
        while self.peek() in ("_", "^"):
            if self.take() == "_":
                below = self.script() if below is None else f"<mrow>{below}{self.script()}</mrow>"
            else:
                above = self.script()
        names = ("munder", "mover", "munderover") if tall else ("msub", "msup", "msubsup")
        if below is not None and above is not None:
            return f"<{names[2]}>{base}{below}{above}</{names[2]}>"
        if below is not None:
            return f"<{names[0]}>{base}{below}</{names[0]}>"
        return f"<{names[1]}>{base}{above}</{names[1]}>" if above is not None else base

    def item(self):
        before = self.tokens[self.at - 1] if self.at else ""
        token = self.take()
        if token.isspace():
            # Names of several letters, functions among them, stand apart from what they multiply or take.
            names = [one for one in (before, self.peek()) if re.fullmatch(r"[A-Za-z]{3,}'*", one) and one not in GREEK and not is_word(one)]
            apart = (re.match(r"[\w)}|']", before[-1:]) and re.match(r"[\w(|]", self.peek())
                     and (names or self.peek() == "|" or self.before_script(self.at - 1)))
            return '<mspace width="0.2em"/>' if apart else ""
        if token == "sqrt" and self.peek() == "(":
            self.take()
            return f"<msqrt>{self.until(')')}</msqrt>"
        if token == "sum" and self.peek() == "_":
            return self.scripts("<mo>∑</mo>", tall=True)
        if token in "([":
            closing = ")" if token == "(" else "]"
            inside = self.until(closing)
            tall = "" if "<munder" in inside else ' stretchy="false"'
            return self.scripts(f"<mrow><mo{tall}>{token}</mo>{inside}<mo{tall}>{closing}</mo></mrow>")
        letter = token == "a" and not is_word(self.next_of(1) if self.peek().isspace() else self.peek())
        if is_word(token) and not letter and self.peek() not in ("_", "^", "("):
            words = [token]
            while self.peek().isspace() and self.at + 1 < len(self.tokens) and is_word(self.tokens[self.at + 1]):
                self.take()
                words.append(self.take())
            return f"<mtext>&nbsp;{escape(' '.join(words))}&nbsp;</mtext>"
        if token == "," or token == ";" or token == ":":
            return f'<mo separator="true">{token}</mo>'
        return self.scripts(self.atom(token))


def split(text):
    """Equations of a text: they end at commas and semicolons outside of brackets where another one begins."""
    parts, depth, begin = [], 0, 0
    for token, at in tokens_of(text):
        depth += (token in "([{") - (token in ")]}") if len(token) == 1 else 0
        begins = r"\s*\S{1,24} \S{0,20}?=|\s*[A-Za-z]\S*\(?\w*\)? = |\s*(?:log|exp) \S+ = " + (r"|\s*read " if token == ";" else "")
        if depth == 0 and token in (",", ";") and "=" in text[begin:at] and text[at + 1:at + 2] == " " and re.match(begins, text[at + 1:]):
            parts.append(text[begin:at])
            begin = at + 1
    return [part.strip() for part in parts + [text[begin:]]]


def mathml(text):
    """A <math> element a line; what is rather a sentence is left as it is."""
    lines = []
    for part in split(text):
        aside = re.search(r" (\(\w[\w ]*: .*\))$", part)  # "x = y (gate bounded: z)"
        if aside:
            lines.append(mathml(part[:aside.start()]))
            part = aside[1]
        if ": " in part or sum(is_word(token) for token, _ in tokens_of(part)) > 4:
            lines.append(f'<p class="law"><code>{escape(part)}</code></p>')
            continue
        read = re.fullmatch(r"read (.*)", part)  # a law of the study file
        reader = Reader(read[1] if read else part)
        begin = "<mtext>read&nbsp;</mtext>" if read else ""
        lines.append(f'<math display="block" alttext="{escape(part, quote=True)}"><mrow>{begin}{reader.until(None)}</mrow></math>')
    return "\n".join(lines)
