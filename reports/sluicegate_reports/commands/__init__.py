"""What people type: `sluicegate report`, its commands, and the comparison of `sluicegate demo --all`."""
