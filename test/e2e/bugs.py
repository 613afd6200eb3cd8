"""bugs.py - the failures of others that public bug reports tell of (bug-cases.md), each as a case of its own.

They are in three files: values and names; identity, TOAST and tables; transactions,
positions and the worker's life.  Reserve cases have no number.
"""
import bugs_tables          # noqa: F401
import bugs_transactions    # noqa: F401
import bugs_values          # noqa: F401
