"""Write verifications and conversions as JSON, HTML, or node data for Model Explorer.

Importing it also lets notebooks show models, reports and verifications (jfuse/base/notebooks.py).

>>> from jfuse.reports import write_html, write_json, write_model_explorer
"""

import jfuse.reports.embedded  # noqa: F401  registers how notebooks show results
from jfuse.reports.as_json import to_json, write_json
from jfuse.reports.model_explorer import write_model_explorer
from jfuse.reports.noise import write_noise_explorer, write_noise_html
from jfuse.reports.page import write_html

__all__ = ["to_json", "write_html", "write_json", "write_model_explorer", "write_noise_explorer", "write_noise_html"]
