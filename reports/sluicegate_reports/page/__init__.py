"""The report as one HTML file: inline SVG, no script, nothing fetched from anywhere."""

from sluicegate_reports.page.budget import MAX_BYTES
from sluicegate_reports.page.document import page

__all__ = ["MAX_BYTES", "page"]
