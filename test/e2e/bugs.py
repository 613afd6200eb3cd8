"""bugs.py - the failures of others that public bug reports tell of (bug-cases.md), each as a case of its own.

They are in three files: values and names; identity, TOAST and tables; transactions,
positions and the worker's life.  Reserve cases have no number.
"""
import bugs_tables          # noqa: F401
import bugs_transactions    # noqa: F401
import bugs_values          # noqa: F401

# Cases that hold only when a stale table is copied again by itself, and what comes under the rules with rows is copied.
NEEDS_RECOPY = ['b13_enum_changed', 'b23_column_again', 'b24_first_column', 'reserve_deferrable_key', 'reserve_identity_index_dropped',
                'ddl_stale', 'published_meanwhile', 'made_then_met', 'made_with_rows', 'decoded_late_stale']

# Cases of types that are not converted yet.
NEEDS_TYPES = ['b14_arrays', 'b14_arrays_new', 'reserve_domains_new']

NOT_YET = {**{name: 'needs tables that are copied again while others stream' for name in NEEDS_RECOPY},
           **{name: 'needs types that are not converted yet' for name in NEEDS_TYPES}}
