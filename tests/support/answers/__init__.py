"""Typical wrong answers to the exercises of each lesson: a file for each."""
