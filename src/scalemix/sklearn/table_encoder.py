"""`TableEncoder`: the encoding of data frames, as a step of a pipeline."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from scalemix.data.bins import Bins
from scalemix.sklearn.inputs import note_columns, warn_of_text
from scalemix.tables import InputColumns, InputError, is_frame, learn_inputs, table_of


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turns a data frame into numbers, as the estimators and the command line do.

    The estimators do this themselves. As a step of its own it serves other models, and shows what
    networks see. Numbers stay as they are: whoever reads them standardises them.

    Parameters
    ----------
    bins : int or "auto", optional
        How many extra inputs to make of each column of numbers, up to this number. "auto" follows
        the number of rows, and gives each number that many rows share one as well. By default there
        are none.
    categorical : sequence of str, default=()
        Columns of labels that look like numbers. Those of a categorical type need not be named.

    Attributes
    ----------
    columns_ : scalemix.tables.InputColumns
        What became of each column: `columns_.layout` has the column of each output, and
        `columns_.left_out` those that are not used, with the reason.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names.

    Examples
    --------
    >>> import pandas as pd
    >>> from scalemix.sklearn import TableEncoder
    >>> frame = pd.DataFrame({"size": [1.5, None, 3.0], "kind": ["a", "b", "a"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size is missing', 'kind = a', 'kind = b', 'kind = another']
    >>> encoder.transform(frame)[1].tolist()
    [2.25, 1.0, 0.0, 1.0, 0.0]
    """

    columns_: InputColumns
    n_features_in_: int

    def __init__(self, *, bins: Bins = None, categorical: Sequence[str] = ()):
        self.bins: Bins = bins
        self.categorical = categorical

    def fit(self, X: Any, y: Any = None) -> "TableEncoder":
        """Learn medians, categories and bins.

        Parameters
        ----------
        X : data frame of shape (rows, columns)
            A frame of pandas or polars.
        y : object, optional
            Not looked at.

        Returns
        -------
        TableEncoder
            The encoder itself.

        Examples
        --------
        >>> import pandas as pd
        >>> from scalemix.sklearn import TableEncoder
        >>> TableEncoder(bins=2).fit(pd.DataFrame({"a": [1, 2, 5, 9]})).columns_.features
        ['a', 'a, 1 to 2', 'a, 2 to 9']
        """
        self._check(X, reset=True)
        table = table_of(X)
        for name in self.categorical:
            table.column(name)
        table = dataclasses.replace(table, categorical=(*table.categorical, *self.categorical))
        self.columns_ = learn_inputs(table, use=None, bins=self.bins)
        warn_of_text(self.columns_, table)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The frame as numbers.

        Parameters
        ----------
        X : data frame of shape (rows, columns)
            A frame with the columns that the encoder was fitted to.

        Returns
        -------
        ndarray of shape (rows, outputs)
            The numbers, in double precision.

        Examples
        --------
        >>> import pandas as pd
        >>> from scalemix.sklearn import TableEncoder
        >>> encoder = TableEncoder().fit(pd.DataFrame({"kind": ["a", "b"]}))
        >>> encoder.transform(pd.DataFrame({"kind": ["b", "c"]})).tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        check_is_fitted(self, "columns_")
        self._check(X, reset=False)
        return self.columns_.encode(table_of(X)).x

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """What each output is.

        Parameters
        ----------
        input_features : object, optional
            Not looked at.

        Returns
        -------
        ndarray of str
            The names.

        Examples
        --------
        >>> import pandas as pd
        >>> from scalemix.sklearn import TableEncoder
        >>> TableEncoder().fit(pd.DataFrame({"a": [1, 2]})).get_feature_names_out().tolist()
        ['a']
        """
        check_is_fitted(self, "columns_")
        return np.array(self.columns_.features, object)

    def _check(self, X: Any, *, reset: bool) -> None:
        if not is_frame(X):
            raise InputError(
                f"TableEncoder takes a data frame of pandas or polars, got {type(X).__name__}. "
                f"An array of numbers needs no encoding."
            )
        note_columns(self, X, reset=reset)
