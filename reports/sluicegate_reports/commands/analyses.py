"""`sluicegate report replay`, `recommend` and `follow`: analyses of a decision log.

Exit codes: 0 done, 2 wrong use, or something that cannot be read or written.
"""

import math
import sys
from pathlib import Path

import click

from sluicegate.output import echo, echo_document
from sluicegate_reports.commands import output
from sluicegate_reports.commands.charging import usage
from sluicegate_reports.commands.compact import compact
from sluicegate_reports.commands.locations import FOLDER, NEW_FILE, NEW_FOLDER, further_logs, together
from sluicegate_reports.commands.usage import Unusable, part, spark, write
from sluicegate_reports.model.locations import Location, LocationError, one_line


@click.command("replay")
@click.argument("log", type=FOLDER, metavar="LOG")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@further_logs
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="'LEVEL [NAME] POLICY=VALUE'",
    help="Replay FILE with this change, in the words of `policies set`; may be repeated.",
)
@output.options
def replay(
    log: Location,
    file: Path,
    logs: tuple[Location, ...],
    changes: tuple[str, ...],
    out: Location | None,
    form: str | None,
) -> None:
    """Replay LOG under the policies in FILE, and report whom they would have refused or delayed.

    LOG is the directory of a decision log, a path or a URL such as s3a://BUCKET/LOG. FILE is a gateway's
    file; its store is ignored. Rates and sizes are exact for rows recorded with `detail: full`; for summaries
    the result has bounds.
    """
    chosen = output.chosen(out, form)
    job, reading = part("jobs.replay"), part("replaying.candidate")
    try:
        candidate = reading.read_candidate(file, changes=changes)
    except reading.CandidateError as error:
        echo_document(str(error), err=True)
        sys.exit(Unusable.exit_code)
    with spark("sluicegate report replay", log, *logs) as session:
        try:
            results = job.findings(job.replay(session, together(log, logs), candidate))
        except job.ReplayError as error:
            raise Unusable(str(error)) from None
    output.deliver(results, out, chosen)


@click.command("recommend")
@click.argument("log", type=FOLDER, metavar="LOG")
@further_logs
@click.option(
    "--head-room",
    type=click.FloatRange(min=1, max=1000),
    metavar="FACTOR",
    default=2.0,
    show_default=True,
    help="Factor applied to the 99th percentile of the usual load.",
)
@click.option("--apply", is_flag=True, help="Apply the limits at once; by default they are only observed.")
@click.option(
    "--policies",
    type=NEW_FILE,
    help="File to write the policies to; without it they are printed instead of the findings.",
)
@output.options
def recommend(
    log: Location,
    logs: tuple[Location, ...],
    head_room: float,
    apply: bool,
    policies: Location | None,
    out: Location | None,
    form: str | None,
) -> None:
    """Recommend limits from a baseline, the percentiles of the demand in LOG, as a ready policy file.

    It needs neither Spark nor Java.
    """
    chosen = output.chosen(out, form)
    if not math.isfinite(head_room):
        raise click.BadParameter(f"{head_room} is not in the range 1<=x<=1000", param_hint="'--head-room'")
    job, writing = part("jobs.recommend"), part("recommending.policy_file")
    progress = part("spark.progress")
    try:
        with progress.working("recommend"):
            recommendation = job.recommend(together(log, logs), head_room=head_room, apply=apply)
    except (job.RecommendError, LocationError) as error:
        raise Unusable(str(error)) from None
    text = writing.policy_file(recommendation.plan)
    if policies is not None:
        write(policies, text)
        output.deliver(recommendation.results, out, chosen)
        echo(
            "",
            f"policies written to {policies}: put your brokers in, then `sluicegate check {policies}`",
        )
        return
    if out is not None:
        write(out, output.rendered(recommendation.results, chosen))
    echo_document(text)


@click.command("follow")
@click.argument("log", type=FOLDER, metavar="LOG")
@further_logs
@click.option(
    "--state",
    type=NEW_FOLDER,
    metavar="DIR",
    required=True,
    help="Directory for the state: sums of each minute, and the names of files that are in them. One call at "
    "a time.",
)
@click.option(
    "--files-per-batch",
    type=click.IntRange(min=1),
    metavar="N",
    default=64,
    show_default=True,
    help="Files whose sums are stored together: a killed call has to read so many again at most.",
)
@output.options
def follow(
    log: Location,
    logs: tuple[Location, ...],
    state: Location,
    files_per_batch: int,
    out: Location | None,
    form: str | None,
) -> None:
    """Count the files that are new in LOG since the last call, and print the totals. Needs no Java.

    A killed call can be repeated: nothing is lost, and nothing counts twice.
    """
    chosen = output.chosen(out, form)
    job, progress = part("jobs.follow"), part("spark.progress")
    try:
        with progress.working("follow"):
            results = job.findings(job.follow(together(log, logs), state, files_per_batch=files_per_batch))
    except (job.FollowError, LocationError) as error:
        raise Unusable(str(error)) from None
    except OSError as error:
        raise Unusable(f"cannot write {str(state)!r}: {one_line(error)}") from None
    output.deliver(results, out, chosen)


COMMANDS = (replay, recommend, follow, usage, compact)
