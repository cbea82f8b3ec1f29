"""How results are shown: in the terminal, as Markdown and as a page."""
