"""Draws the pictures of README and docs by running the Python blocks of the pages that show them.

python tools/pictures.py            # draws all, and writes docs/images/pictures.json
python tools/pictures.py FILE...    # draws some

docs/images/pictures.json says what each picture was made from: a hash of the page's Python blocks and of the code that
draws. A test compares it with what is there now, so that a picture cannot be older than its snippet.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
RECORD = IMAGES / "pictures.json"

PICTURES = {
    "forecast.png": "README.md",
    "folds.png": "docs/evaluating.md",
    "intervals.png": "docs/predicting.md",
    "demand.png": "docs/intermittent-demand.md",
    "losses.png": "docs/best-practices.md",
    "training-report.png": "docs/evaluating.md",
    "dashboard.png": "docs/dashboard.md",
}
"""The page whose Python blocks write each picture, under the same name."""
DRAWING = ("src/neuro_divergent/plotting", "src/neuro_divergent/forecasting/plots.py")
"""The code that draws; a change of it makes every picture stale."""
DASHBOARD = "src/neuro_divergent/dashboard/static"
"""The page of the dashboard."""
REPORT = "src/neuro_divergent/report"
"""The code that makes reports."""
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
WIDTH, HEIGHT = 1000, 1500
"""Of the picture of a report."""


def script(page: str) -> str:
    """The Python blocks of a page, end to end."""
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return "\n\n".join(body for options, body in found if "no-run" not in options)


def made_from(picture: str) -> str:
    """A hash of the snippets and the code that a picture is made from."""
    places = [REPORT] if picture.endswith("report.png") else list(DRAWING)
    places = [DASHBOARD] if picture == "dashboard.png" else places
    digest = hashlib.sha256(script(PICTURES[picture]).encode())
    for place in places:
        path = ROOT / place
        files = sorted(path.glob("*.[pcj]*")) if path.is_dir() else [path]
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def state(picture: str) -> dict[str, str]:
    """What the record should say of a picture now."""
    content = hashlib.sha256((IMAGES / picture).read_bytes()).hexdigest()
    return {"page": PICTURES[picture], "made_from": made_from(picture), "picture": content}


def draw(page: str, pictures: list[str]) -> None:
    """Run the blocks of a page in an empty folder, and take its pictures over."""
    with tempfile.TemporaryDirectory() as folder:
        code = script(page)
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        for picture in pictures:
            if picture == "dashboard.png":
                photograph_dashboard(Path(folder) / "runs", IMAGES / picture)
            elif picture.endswith("report.png"):
                photograph(Path(folder) / picture.replace(".png", ".html"), IMAGES / picture)
            else:
                (IMAGES / picture).write_bytes((Path(folder) / picture).read_bytes())


def photograph(page: Path, picture: Path) -> None:
    """The top of an HTML report as a browser shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        shown.goto(page.as_uri())
        shown.screenshot(path=picture)
        browser.close()


def photograph_dashboard(runs: Path, picture: Path) -> None:
    """The dashboard's page of the first run."""
    from playwright.sync_api import sync_playwright

    import neuro_divergent as nd

    with nd.Dashboard(runs) as board, sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        shown = browser.new_page(viewport={"width": 1280, "height": 1130})
        shown.goto(board.url)
        shown.click("tr[data-run] a")
        shown.wait_for_selector("figure.chart path[stroke]")
        shown.wait_for_timeout(500)
        shown.screenshot(path=picture)
        browser.close()


def main(wanted: list[str]) -> None:
    """Draw some pictures, or all, and write down what they were made from."""
    chosen = wanted or list(PICTURES)
    for page in dict.fromkeys(PICTURES[picture] for picture in chosen):
        draw(page, [picture for picture in chosen if PICTURES[picture] == page])
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record = {picture: state(picture) if picture in chosen else known[picture] for picture in PICTURES}
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
