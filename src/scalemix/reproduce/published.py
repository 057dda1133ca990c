"""Published numbers, as mean and error.

`PAPER` is from the paper's Tables 1 and 2 (Nalisnick, Hernandez-Lobato and Smyth, ICML 2019). Its
own "RMSE" columns are what `metrics.paper_rmse` computes. `DROPOUT` is the grid-searched MC dropout
of 2018 (Mukhoti, Stenetorp and Gal, "On the importance of strong baselines in Bayesian deep
learning"): true RMSE and log-likelihood; an error of zero stands for one that is not known here.
"""

Number = tuple[float, float]

SETS = ("boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht")


def _by_set(*numbers: Number) -> dict[str, Number]:
    return dict(zip(SETS, numbers, strict=True))


PAPER: dict[str, dict[str, dict[str, Number]]] = {
    "importance_weighted": {
        "paper_rmse": _by_set(
            (2.450, 0.25), (4.052, 0.29), (0.972, 0.06), (0.082, 0.0), (3.094, 0.08),
             (0.667, 0.02), (0.577, 0.16)
        ),
        "log_likelihood": _by_set(
            (-2.352, 0.10), (-2.888, 0.08), (-1.339, 0.06), (1.119, 0.03), (-2.775, 0.04),
             (-0.996, 0.04), (-1.274, 0.12)
        ),
    },
    "tail_adaptive": {
        "paper_rmse": _by_set(
            (2.369, 0.22), (3.935, 0.35), (0.828, 0.05), (0.076, 0.0), (3.286, 0.08),
             (0.559, 0.03), (0.612, 0.14)
        ),
        "log_likelihood": _by_set(
            (-2.346, 0.01), (-2.940, 0.13), (-1.349, 0.04), (1.105, 0.03), (-2.809, 0.05),
             (-0.962, 0.07), (-1.290, 0.11)
        ),
    },
    "ARD": {
        "paper_rmse": _by_set(
            (2.158, 0.20), (3.805, 0.28), (0.852, 0.01), (0.066, 0.01), (3.486, 0.10),
             (0.561, 0.03), (0.691, 0.12)
        )
    },
    "ADD": {
        "paper_rmse": _by_set(
            (2.343, 0.31), (4.084, 0.34), (0.867, 0.11), (0.064, 0.0), (3.290, 0.06),
             (0.555, 0.01), (0.657, 0.14)
        )
    },
    "ARD-ADD": {
        "paper_rmse": _by_set(
            (2.367, 0.18), (3.761, 0.23), (0.853, 0.08), (0.064, 0.0), (3.236, 0.07),
             (0.538, 0.03), (0.604, 0.16)
        )
    },
}  # fmt: skip

DROPOUT: dict[str, dict[str, Number]] = {
    "rmse": {
        "boston": (2.90, 0.18),
        "concrete": (4.82, 0.16),
        "energy": (0.54, 0.06),
        "kin8nm": (0.08, 0.00),
        "power": (4.01, 0.04),
        "wine": (0.62, 0.01),
        "yacht": (0.67, 0.05),
    },
    "log_likelihood": {
        "boston": (-2.40, 0.0),
        "concrete": (-2.93, 0.0),
        "energy": (-1.21, 0.0),
        "kin8nm": (1.14, 0.0),
        "power": (-2.80, 0.0),
        "wine": (-0.93, 0.0),
        "yacht": (-1.25, 0.0),
    },
}
