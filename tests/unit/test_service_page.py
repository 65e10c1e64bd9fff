"""The page of the service in a real browser: a stream is fed, the alarm appears, feedback is given.

Skipped where there is no Chromium with its driver, or no selenium.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs mdvpf[service]")
pytest.importorskip("uvicorn", reason="needs mdvpf[service]")
pytest.importorskip("prometheus_client", reason="needs mdvpf[service]")
pytest.importorskip("selenium", reason="needs mdvpf[browser]")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from mdvpf.streams.service.state import NotedIncident
from tests.running_service import Client, running

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Chromium and its driver"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --window-size=1200,1000"
)
SECONDS = 30  # that a busy machine may take for anything
TOKEN = "0123456789abcdef0123"
CONTRASTS = """
const part = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) =>
  0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (each) => {
  for (; each; each = each.parentElement) {
    const found = rgb(getComputedStyle(each).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const texts = "h1, h2, h3, p, li, dt, dd, th, td, button:enabled";
return [...document.querySelectorAll(texts)]
  .filter((each) => each.textContent.trim() && each.offsetParent)
  .map((each) => [light(rgb(getComputedStyle(each).color)), light(behind(each))])
  .map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
"""
STREAMS = """
[streams.clicks]
symbols = 6
method = "MD-VPA"
particles = 10
max_states = 6

[streams.other]
symbols = 3
method = "Markov 1"
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield found
    finally:
        found.quit()


def wait(browser: Any, condition: Callable[[Any], Any]) -> Any:
    return WebDriverWait(browser, SECONDS, poll_frequency=0.05).until(condition)


def text(browser: Any, name: str) -> str:
    found: str = browser.find_element(By.ID, name).text
    return found


def feed(client: Client, n: int, strange: int = 0) -> None:
    rng = random.Random(0)
    events = [{"symbol": rng.randrange(5)} for _ in range(n)] + [{"symbol": 5}] * strange
    assert client.send("clicks", events).status == 200


def test_a_stream_is_fed_the_alarm_appears_and_feedback_is_given(
    browser: Any, tmp_path: Path
) -> None:
    with running(tmp_path, STREAMS) as (client, _):
        browser.get(f"http://127.0.0.1:{client.port}/")
        wait(browser, lambda _: text(browser, "state") == "live")
        assert text(browser, "no-incidents") == "None yet."
        feed(client, 1500)
        wait(browser, lambda _: "last 600 symbols" in text(browser, "chart-text"))
        assert browser.find_elements(By.CSS_SELECTOR, "#chart .mean-line")
        known = len(browser.find_elements(By.CSS_SELECTOR, "#incidents > li"))
        feed(client, 0, strange=40)
        wait(browser, lambda _: browser.find_elements(By.CSS_SELECTOR, "#chart .alarm-dot"))
        wait(
            browser,
            lambda _: len(browser.find_elements(By.CSS_SELECTOR, "#incidents > li")) > known,
        )
        # The list is drawn anew with every event, so an element that was found may be gone.
        newest = "return document.querySelector('#incidents > li').textContent"
        wait(browser, lambda _: "5 came" in browser.execute_script(newest))
        wait(browser, lambda _: "incident" in _hidden_text(browser, "stream"))
        wait(browser, lambda _: "New incident" in _hidden_text(browser, "news"))
        _give_feedback_by_keyboard(browser, client)
        wait(browser, lambda _: browser.find_elements(By.CSS_SELECTOR, "#graph .node"))
        n_states = len(client.ask("/v1/streams/clicks/model").json["states"])
        rows = "#particle tbody tr"  # as of the last refresh
        wait(browser, lambda _: len(browser.find_elements(By.CSS_SELECTOR, rows)) == n_states)
        assert "MD-VPA" in text(browser, "health")
        _check_access(browser)
        _check_width(browser)
        addresses = browser.execute_script(
            "return performance.getEntriesByType('resource').map((each) => each.name)"
        )
        assert addresses
        assert all(each.startswith(f"http://127.0.0.1:{client.port}/") for each in addresses)
        _check_labels(browser)
        browser.find_element(By.ID, "stream").send_keys("other")
        wait(browser, lambda _: text(browser, "chart-text") == "No symbols yet.")
        wait(browser, lambda _: "has no states" in text(browser, "states-text"))
        wait(browser, lambda _: text(browser, "state") == "live")
        assert browser.get_log("browser") == []
    wait(browser, lambda _: "trying again" in text(browser, "state"))


def _hidden_text(browser: Any, name: str) -> str:
    found: str = browser.execute_script(f"return document.getElementById('{name}').textContent")
    return found


def _give_feedback_by_keyboard(browser: Any, client: Client) -> None:
    body = browser.find_element(By.TAG_NAME, "body")
    browser.execute_script("document.activeElement.blur()")
    for _ in range(30):
        body.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        if active.text == "False alarm":
            break
    assert active.text == "False alarm"
    active.send_keys(Keys.ENTER)
    number = client.ask("/v1/streams/clicks/incidents").json["incidents"][0]["number"]

    def is_noted(_: Any) -> bool:
        feed(client, 1)  # what is absorbed after the feedback shows that it was
        found = client.ask("/v1/streams/clicks/incidents").json["incidents"]
        return any(each["number"] == number and each["strange"] is False for each in found)

    wait(browser, is_noted)
    wait(browser, lambda _: browser.find_elements(By.CSS_SELECTOR, "#incidents > li.answered"))
    active = browser.switch_to.active_element  # the focus is where it was
    assert active.text == "False alarm"
    assert active.get_attribute("aria-pressed") == "true"


def _check_access(browser: Any) -> None:
    """Check what screen readers need: a language, names of controls, one heading a section."""
    nameless = browser.execute_script(
        """return [...document.querySelectorAll("button, select, input, svg, section")].filter(
             (each) => !(each.textContent.trim() && each.matches("button"))
               && !each.labels?.length && !each.getAttribute("aria-labelledby"))
             .map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1
    assert _smallest_contrast(browser) >= 4.5  # WCAG, level AA


def _smallest_contrast(browser: Any) -> float:
    """Return the least contrast of text, as WCAG computes it, in light and dark."""
    found = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        found += browser.execute_script(CONTRASTS)
    assert len(found) > 40
    return min(found)


def _check_width(browser: Any) -> None:
    """Check that nothing sticks out of a screen of 400 pixels."""
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    width, room = browser.execute_script(
        "const all = document.documentElement; return [all.scrollWidth, all.clientWidth]"
    )
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width == room <= 400


def _check_labels(browser: Any) -> None:
    """Check that no label of the graph is cut off."""
    outside = browser.execute_script(
        """const room = document.getElementById("graph").getBoundingClientRect();
        return [...document.querySelectorAll("#graph .label")]
          .map((each) => each.getBoundingClientRect())
          .filter((each) => each.left < room.left || each.right > room.right
            || each.top < room.top || each.bottom > room.bottom).length"""
    )
    assert outside == 0


def test_the_page_asks_for_the_token(browser: Any, tmp_path: Path) -> None:
    with running(tmp_path, STREAMS, token=TOKEN) as (client, _):
        browser.get("about:blank")
        browser.get(f"http://127.0.0.1:{client.port}/")
        field = wait(browser, lambda _: browser.find_element(By.ID, "token"))
        wait(browser, lambda _: field.is_displayed())
        field.send_keys("wrong", Keys.ENTER)
        wait(browser, lambda _: "a token is needed" in text(browser, "state"))
        field.clear()
        field.send_keys(TOKEN, Keys.ENTER)
        wait(browser, lambda _: text(browser, "state") == "live")
        assert browser.find_element(By.ID, "main").is_displayed()


def test_labels_keys_and_times_of_strangers_are_shown_as_text(browser: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.body.remove()>"
    streams = f'[streams.x]\nvocabulary = ["{evil}", "b"]\nmethod = "MD-VPA"\nparticles = 5\n'
    with running(tmp_path, streams) as (client, engine):
        assert client.send("x", [{"symbol": evil}] * 20).status == 200
        judged = [0, 1.0, 1.0, 1.0, 1.0, True, 0.1]
        with engine.streams["x"].look() as state:
            noted = NotedIncident(0, 0, 1, 0, None, None, 1, evil, 1e17, evil, judged)
            state.incidents[0] = noted
        browser.get("about:blank")
        browser.get(f"http://127.0.0.1:{client.port}/#%")  # not a name, and not even an escape
        wait(browser, lambda _: browser.find_elements(By.CSS_SELECTOR, "#incidents > li"))
        wait(browser, lambda _: evil in text(browser, "particle"))
        assert text(browser, "incidents").count(evil) == 2
        assert "100000000000000000 s" in text(browser, "incidents")
        assert browser.find_elements(By.TAG_NAME, "img") == []
