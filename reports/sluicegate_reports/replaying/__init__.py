"""What-if analysis: replays recorded demand against the real engine under other policies.

`candidate` reads the policies, `demand` makes rows of the log, `walk` asks the engine about them in order of
time, `holding` lets what is held wait as a gate would, `windows` bounds what a summary does not tell.
"""
