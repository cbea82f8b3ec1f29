"""The report as one HTML file: inline SVG, no script, no external resources."""

from sluicegate_reports.page.budget import MAX_BYTES
from sluicegate_reports.page.document import page

__all__ = ["MAX_BYTES", "page"]
