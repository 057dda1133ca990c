"""Tables from files, and what a model has to remember of the one that it was fitted to."""

from scalemix.tables.columns import Columns, Encoded, InputColumns
from scalemix.tables.frames import is_frame, table_of
from scalemix.tables.learning import learn_columns, learn_inputs
from scalemix.tables.reading import read_table
from scalemix.tables.table import InputError, Table, TextFormat

__all__ = [
    "Columns",
    "Encoded",
    "InputColumns",
    "InputError",
    "Table",
    "TextFormat",
    "is_frame",
    "learn_columns",
    "learn_inputs",
    "read_table",
    "table_of",
]
