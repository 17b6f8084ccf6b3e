#!/usr/bin/env python3
"""Whether the page of `crosstalk report` works in a browser: sorts, filters, shows curves, copies, prints, and runs nothing of
what labels say.

    report_browser_test.py CROSSTALK

Needs Playwright for Python and a Chromium ($CHROMIUM, one on PATH, or Playwright's own); exit code 77 without them.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from playwright.sync_api import Error, sync_playwright
except ImportError:
    print("skipped: this Python has no playwright")
    sys.exit(77)

HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>&amp;"
LABELS = ["sum", "delta", HOSTILE]


def write_runs(folder):
    """54 runs of three labels, with curves; one diverged."""
    with open(folder / "runs.csv", "w", newline="") as runs, open(folder / "runs.curves.csv", "w", newline="") as curves:
        row, point = csv.writer(runs), csv.writer(curves)
        row.writerow(["id", "label", "seed", "status", "task.name", "task.associations", "train.learning_rate", "eval_loss",
                      "test_loss"])
        point.writerow(["id", "step", "metric", "value"])
        number = 0
        for rank, label in enumerate(LABELS):
            for load in (4, 8, 16):
                for rate in (0.001, 0.01):
                    for seed in (1, 2, 3):
                        number += 1
                        name, loss = f"ct-{number:032x}", round(0.01 * load * (rank + 1) + rate + seed / 1e5, 6)
                        gone = number == 7
                        row.writerow([name, label, seed, "diverged" if gone else "done", "recall", load, rate,
                                      "nan" if gone else loss, "nan" if gone else loss + 0.001])
                        for step in (100, 200, 300):
                            point.writerow([name, step, "eval_loss", loss + 1 / step])


def check(truth, what):
    if not truth:
        sys.exit(f"wrong: {what}")
    print(f"ok: {what}")


def column(page, key):
    """What a column of the shown rows says, in their order."""
    return page.evaluate("""key => {
        const at = data.columns.findIndex(column => column.key === key);
        return [...document.querySelectorAll("#runs-table tbody tr")].filter(row => row.offsetParent)
            .map(row => data.rows[row.run][at]);
    }""", key)


def check_table(page):
    head = page.locator("#runs-table thead th", has=page.get_by_role("button", name="eval_loss", exact=True))
    head.get_by_role("button").click()
    losses = [value for value in column(page, "eval_loss") if value is not None]
    check(losses == sorted(losses) and len(losses) == 53, "a head sorts numbers upwards")
    check(column(page, "eval_loss")[-1] is None, "what is not there comes last")
    check(head.get_attribute("aria-sort") == "ascending", "aria-sort says ascending")
    head.get_by_role("button").press("Enter")  # by keyboard
    check([value for value in column(page, "eval_loss") if value is not None] == sorted(losses, reverse=True),
          "the same head sorts them downwards, by keyboard")
    check(page.locator("#runs-table th[aria-sort]").count() == 1, "one head is sorted by")
    page.fill("#filter", "associations=8 eval_loss<0.2")
    check(page.inner_text("#count") == "11 of 54 runs" and set(column(page, "task.associations")) == {8},
          "conditions filter")
    page.fill("#filter", "onerror")
    check(set(column(page, "label")) == {LABELS[2]}, "words filter, hostile ones too")
    page.fill("#filter", "")
    page.select_option("#label", LABELS[2])
    check(set(column(page, "label")) == {LABELS[2]} and len(column(page, "label")) == 18, "a label is chosen")
    page.select_option("#label", index=0)
    check(len(column(page, "label")) == 54, "all come back")


def check_curves(page):
    rows = page.locator("#runs-table tbody tr")
    panel = page.locator("#curve")
    check(not panel.is_visible(), "no curves before a row is pointed at")
    rows.nth(2).hover()
    check(panel.is_visible() and panel.locator("svg path").count() == 2, "a row under the pointer shows its curve")
    before = panel.locator("svg").get_attribute("aria-label")
    check(before.startswith("eval_loss: "), "the curve has a text")
    page.locator("#runs-table tbody tr[tabindex='0']").focus()
    page.keyboard.press("End")
    check(page.evaluate("document.activeElement.rowIndex") == 54, "the arrow keys reach rows")
    check(panel.locator("svg").get_attribute("aria-label") != before, "a row under the keyboard shows its curve")
    spots = page.locator("figure .spot title")
    check(spots.count() > 5 and "associations = " in spots.first.text_content(), "points of figures tell their numbers")
    page.locator(".legend li[data-line='1']").first.hover()
    check(page.locator("figure.has-front g.front").count() > 0, "a name puts its line in front")


def check_copies(page):
    page.fill("#filter", "associations=4")
    page.evaluate("window.copied = ''; copy = async text => { window.copied = text; }")
    page.get_by_role("button", name="Copy the shown runs as CSV").click()
    rows = list(csv.reader(page.evaluate("copied").splitlines()))
    check(len(rows) == 19 and rows[0][0] == "label" and rows[-1][0] in LABELS, "the shown runs are copied as CSV")
    page.get_by_role("button", name="Copy them as LaTeX").click()
    check("\\begin{longtable}" in page.evaluate("copied") and "<img src=x onerror=alert(1)>\"'</script>" in page.evaluate("copied")
          and "\\&amp;" in page.evaluate("copied"), "and as LaTeX")
    page.locator("details summary").first.click()
    page.get_by_role("button", name="Copy as CSV").first.click()
    rows = list(csv.reader(page.evaluate("copied").splitlines()))
    check(rows[0][:3] == ["label", "d_dot", "associations"] and len(rows) > 9, "the numbers of a figure are copied")
    page.fill("#filter", "")


def check_print(page):
    page.emulate_media(media="print")
    check(not page.locator(".tools").first.is_visible() and not page.locator("#curve").is_visible()
          and page.locator("#runs-table tbody tr").first.is_visible(), "on paper: the table, and no tools")
    check(len(page.pdf(format="A4")) > 10_000, "it prints")
    page.emulate_media(media="screen")


def browser_of(playwright):
    for path in (os.environ.get("CHROMIUM"), shutil.which("chromium"), shutil.which("google-chrome")):
        if path:
            return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    try:
        return playwright.chromium.launch()
    except Error as problem:
        print(f"skipped: no Chromium: {str(problem).splitlines()[0]}")
        sys.exit(77)


def main(crosstalk):
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        write_runs(folder)
        subprocess.run([Path(crosstalk).resolve(), "report", "runs.csv", "--title", f"Runs of {HOSTILE}"], cwd=folder, check=True)
        browser = browser_of(playwright)
        for width in (1280, 390):
            page = browser.new_page(viewport={"width": width, "height": 900})
            heard = []
            page.on("console", lambda message: heard.append(message.text))
            page.on("pageerror", lambda error: heard.append(str(error)))
            page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
            page.on("request", lambda request: heard.append(request.url) if not request.url.startswith("file:") else None)
            page.goto((folder / "report.html").as_uri())
            check(HOSTILE in page.inner_text("h1"), f"at {width} pixels: a hostile title is text")
            check(page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is wider than the window")
            check_table(page)
            check_curves(page)
            check_copies(page)
            check_print(page)
            check(heard == [], f"nothing ran, nothing was asked of a network, no errors {heard}")
            page.close()
        without = browser.new_context(java_script_enabled=False).new_page()
        without.goto((folder / "report.html").as_uri())
        check(without.locator("#runs-table tbody tr").count() == 54 and not without.locator("#filter").is_visible(),
              "without scripts all runs are there, and no tools that do nothing")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
