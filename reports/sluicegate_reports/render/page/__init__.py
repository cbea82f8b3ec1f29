"""The report as one HTML file: inline SVG, no script, no external resources."""

from sluicegate_reports.render.page.budget import MAX_BYTES
from sluicegate_reports.render.page.document import page

__all__ = ["MAX_BYTES", "page"]
