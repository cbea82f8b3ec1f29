"""The counters of a supervisor that has had no trouble."""

from typing import Any, Final

STATUS: Final[dict[str, Any]] = {
    "workers": {},
    "config_last_reload_successful": True,
    "config_reloads_failed": 0,
    "config_version": 1,
    "log_lines_left_out": 0,
    "store_facts_waiting": 0,
    "store_facts_lost": 0,
    "store_facts_conflicting": 0,
    "store_age_seconds": 0.1,
    "store_copy_in_use": False,
    "rollout_fallbacks": 0,
}
