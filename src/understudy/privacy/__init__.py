"""Accounting: what a mechanism costs, what a budget allows, what a data set has spent.

Nothing here imports torch, the engine, or data: a plan is made before any record is read.
"""
