"""What a member of a fleet tells others of itself."""

import json
from collections.abc import Mapping
from typing import Any

from sluicegate.budgets import Member

POLICIES = "policies"
"""Key: the version of its policies."""
LIMITS = "limits"
"""Key: its busiest limits, with what they were granted lately: messages and bytes a second."""
NAME_IS_TAKEN = "name_is_taken"
"""Key: whether another process of the fleet has its name; absent if none has."""

LED = "led"
"""Key: names of the tasks that it does for all; absent if there are none."""


def member_info(member: Member) -> Mapping[str, Any]:
    """What it tells, by these keys; nothing if another version wrote it in a way of its own."""
    try:
        info = json.loads(member.info)
    except ValueError:
        return {}
    return info if isinstance(info, dict) else {}
