"""The diagnosis of a learner's attention class, from its own lines to a finding.

In the order in which they build on each other: quantities are what should arise in attention; path
finds them among a learner's tensors; masks, scores, heads and results are rules that say why an
operation leaves the path, and departure has them in order. trial runs the class beside ours, and
has its text; behind looks for a cause before the line that was found.
questions, conditions and training ask, and diagnose asks all of them.
"""
