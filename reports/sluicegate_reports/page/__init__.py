"""The report as one HTML file: inline SVG, no script, nothing fetched from anywhere."""

from sluicegate_reports.page.document import MAX_BYTES, page

__all__ = ["MAX_BYTES", "page"]
