"""Tables from files, and what a model has to remember of the one that it was fitted to."""

from scalemix.tables.columns import Columns, Encoded
from scalemix.tables.learning import learn_columns
from scalemix.tables.reading import InputError, Table, read_table

__all__ = ["Columns", "Encoded", "InputError", "Table", "learn_columns", "read_table"]
