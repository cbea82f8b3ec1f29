"""What people type: `sluicegate report`, its commands, and the comparison at the end of `sluicegate demo`."""
