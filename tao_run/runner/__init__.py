"""The part of tao-run that travels: it stages inputs, runs the command, delivers outputs, inside the container.

Python 3.8 or newer and the standard library; imports nothing from the rest of tao_run, which is not there.
"""
