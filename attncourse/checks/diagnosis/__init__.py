"""The diagnosis of a learner's attention class, from its own lines to a finding.

In the order in which they build on each other: quantities holds what should arise in attention,
labeled_run finds it among a learner's tensors. score_causes and layout_causes explain why an
operation goes wrong, and first_difference finds that operation. comparison runs the class beside
ours, and root_cause looks for a cause before the line that was found. questions has
what is asked of a class, and examine asks it all.
"""
