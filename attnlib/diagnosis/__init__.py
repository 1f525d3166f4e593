"""How an exercise check finds the line that is wrong; attnlib.checks is the door to it.

attempt runs code that may fail, trial runs a learner's class beside ours, isolate makes inputs so
small that only one part can matter, probes asks the questions in order.
"""
