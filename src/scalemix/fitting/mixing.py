"""How much each candidate counts in a mixture, chosen by rows that were held out."""

import numpy as np

ITERATIONS = 300
# Parts of the held-out rows, each of which is scored under the mixture that the others choose.
NUM_FOLDS = 5


def stacking_weights(log_probs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The shares of the mixture of candidates under which the rows are most likely.

        max_w  sum_n log sum_c w_c p_c(y_n | x_n)

    `log_probs` is (candidates, rows). The problem is concave; these are the steps of expectation
    maximisation for the shares of a mixture, each of which can only improve on the last.
    """
    relative = np.exp(log_probs - log_probs.max(axis=0))
    shares = np.full(len(log_probs), 1 / len(log_probs))
    for _ in range(ITERATIONS):
        belongs = shares[:, None] * relative
        shares = np.average(belongs / belongs.sum(axis=0), axis=1, weights=weight)
    return shares


def crossed_cdf(log_prob: np.ndarray, cdf: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each row's `cdf` under the mixture that the other rows choose, fold by fold.

    `cdf` is (candidates, rows), or (candidates, rows, targets).

    Rows that chose the mixture lie better in it than new ones will: spreads measured on them are
    too small, and intervals too narrow by as much as several points of coverage.
    """
    folds = np.arange(len(weight)) % NUM_FOLDS
    crossed = np.empty(cdf.shape[1:])
    for fold in range(NUM_FOLDS):
        mine, others = folds == fold, folds != fold
        shares = stacking_weights(log_prob[:, others], weight[others])
        crossed[mine] = np.tensordot(shares, cdf[:, mine], axes=1)
    return crossed


def apportion(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to the shares, by largest remainders."""
    exact = shares * total
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts
