"""Makes an SVG of a play, for a README: light and dark, without scripts and fonts of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from sluicegate.demo.first_minute.judging import Result, ms
from sluicegate.demo.first_minute.plotting import rounded_up
from sluicegate.demo.first_minute.record import Record

_WIDTH, _HEIGHT = 880, 462
_LEFT, _RIGHT = 64, 866
_STYLE = """
svg { font-family: -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; }
.back { fill: #ffffff; } text { fill: #1f2328; } .minor { fill: #59636e; } .grid { stroke: #d1d9e0; }
.mono { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px; }
.title { font-size: 17px; font-weight: 600; } .end { text-anchor: end; }
.p99 { stroke: #cf222e; fill: none; stroke-width: 2.2; } .p99t { fill: #cf222e; }
.p50 { stroke: #9a6700; fill: none; stroke-width: 2.2; } .p50t { fill: #9a6700; }
.passed { fill: #0969da; } .refused { fill: #cf222e; opacity: .35; } .refusedt { fill: #cf222e; }
.mark { stroke: #1a7f37; stroke-width: 2; } .markt { fill: #1a7f37; font-weight: 600; }
.start { stroke: #59636e; stroke-dasharray: 4 4; }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117; } text { fill: #f0f6fc; } .minor { fill: #9198a1; } .grid { stroke: #3d444d; }
.p99 { stroke: #ff7b72; } .p99t, .refusedt { fill: #ff7b72; }
.p50 { stroke: #d29922; } .p50t { fill: #d29922; }
.passed { fill: #58a6ff; } .refused { fill: #ff7b72; } .mark { stroke: #3fb950; } .markt { fill: #3fb950; }
.start { stroke: #9198a1; }
}
"""


@dataclass(frozen=True, slots=True)
class Caption:
    """What stands in the picture beside the data."""

    command: Sequence[str]
    """The command that set the limit, a line each."""
    source: str
    """Who measured it, and in front of what."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """An area of the picture with axes."""

    top: float
    bottom: float
    seconds: float
    most: float

    def x(self, at: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, at / self.seconds)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * value / self.most

    def grid(self) -> Iterator[str]:
        """Three lines with their values."""
        for value in (0.0, self.most / 2, self.most):
            y = self.y(value)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
            yield _text(_LEFT - 8, y + 4, f"{value:,.0f}", "minor end")

    def bars(self, kind: str, values: Sequence[tuple[float, float, float]]) -> str:
        """Bars, given by their end in seconds, their foot and their head."""
        width = self.x(1.0) - _LEFT
        shapes = "".join(
            f"M{self.x(at) - width + 0.5:.1f} {self.y(foot):.1f}h{width - 1:.1f}"
            f"V{self.y(head):.1f}h{1 - width:.1f}z"
            for at, foot, head in values
            if head > foot
        )
        return f'<path class="{kind}" d="{shapes}"/>'

    def line(self, kind: str, values: Sequence[tuple[float, float]]) -> str:
        """A line through values, given by seconds."""
        points = " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in values)
        return f'<polyline class="{kind}" points="{points}"/>'


def picture(record: Record, result: Result, caption: Caption) -> str:
    """Draw a play that is over."""
    points = record.points(record.ended_at)
    p50 = [(point.at - 0.5, point.latency.p50 * 1e3) for point in points]
    p99 = [(point.at - 0.5, point.latency.p99 * 1e3) for point in points]
    passed = [(point.at, 0.0, point.acknowledged) for point in points]
    refused = [(point.at, point.acknowledged, point.acknowledged + point.refused) for point in points]
    seconds = float(len(points))
    latency = _Panel(112, 272, seconds, rounded_up(max(value for _, value in p99)))
    rate = _Panel(322, 412, seconds, rounded_up(max(head for _, _, head in refused)))
    parts = [
        _text(14, 28, "A noisy producer, its neighbour, and one command", "title"),
        _text(14, 49, _in_figures(result), "minor"),
        _text(14, 100, "the neighbour's latency, ms"),
        _text(14, 310, "the noisy producer, messages/s"),
        *latency.grid(),
        *rate.grid(),
        rate.bars("passed", passed),
        rate.bars("refused", refused),
        *_marks(record, latency, rate, caption),
        latency.line("p50", p50),
        latency.line("p99", p99),
        *_names(record, latency, rate),
        *(_text(rate.x(at), rate.bottom + 18, f"{at} s", "minor") for at in range(0, int(seconds), 10)),
        _text(_RIGHT, _HEIGHT - 8, caption.source, "minor end"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">\n'
        f"<title>A noisy producer ruins its neighbour's latency until a command limits it</title>\n"
        f"<style>{_STYLE}</style>\n"
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _in_figures(result: Result) -> str:
    return (
        f"p99 of the neighbour: {ms(result.before.p99)} alone, {ms(result.during.p99)} beside the noise, "
        f"{ms(result.after.p99)} after the command"
    )


def _marks(record: Record, latency: _Panel, rate: _Panel, caption: Caption) -> Iterator[str]:
    assert record.noisy_at is not None and record.limited_at is not None  # noqa: S101, PT018 - it is over
    began, limited = latency.x(record.noisy_at), latency.x(record.limited_at)
    reach = f"V{rate.bottom}"
    yield f'<path class="start" d="M{began:.1f} {latency.top - 12}{reach}"/>'
    yield _text(began - 6, latency.top + 22, "the noise begins", "minor end")
    yield f'<path class="mark" d="M{limited:.1f} {latency.top - 34}{reach}"/>'
    for number, line in enumerate(caption.command):
        yield _text(limited + 8, latency.top - 24 + number * 17, line, "mono markt")


def _names(record: Record, latency: _Panel, rate: _Panel) -> Iterator[str]:
    """The names of lines and bars, beside them."""
    assert record.noisy_at is not None and record.limited_at is not None  # noqa: S101, PT018 - it is over
    middle = (record.noisy_at + record.limited_at) / 2
    spread = record.latency(middle, record.limited_at)
    low, high = latency.y(spread.p50 * 1e3), latency.y(spread.p99 * 1e3)
    yield _text(latency.x(middle), low + 20, "p50", "p50t")
    yield _text(latency.x(middle), high - 8, "p99", "p99t")
    yield _text(rate.x(record.noisy_at) + 4, rate.top - 6, "acknowledged", "minor")
    yield _text(rate.x(record.limited_at) + 8, rate.top - 6, f"refused: {record.refusal}", "refusedt")


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escape(text)}</text>'
