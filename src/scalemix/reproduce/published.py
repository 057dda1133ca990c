"""Published numbers, as mean and error.

`PAPER` is from the paper's Tables 1 and 2 (Nalisnick, Hernandez-Lobato and Smyth, ICML 2019). Its
own "RMSE" columns are what `metrics.paper_rmse` computes. The columns that it takes from others are
true RMSE: `PRINTED_LOWER_BOUND` in Table 1 (Gal and Ghahramani 2016), and `BASELINES` in Table 2
(the same with two layers, Hernandez-Lobato and Adams 2015, Bui and others 2016). `PRINTED_RANKS` is
Table 2's last line. `DROPOUT` is the grid-searched MC dropout of 2018 (Mukhoti, Stenetorp and Gal,
"On the importance of strong baselines in Bayesian deep learning"): true RMSE and log-likelihood; an
error of zero stands for one that is not known here.
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

PRINTED_LOWER_BOUND: dict[str, dict[str, Number]] = {
    "rmse": _by_set(
        (2.80, 0.19), (4.81, 0.14), (1.09, 0.05), (0.09, 0.0), (4.00, 0.04), (0.61, 0.01),
        (0.72, 0.06)
    ),
    "log_likelihood": _by_set(
        (-2.39, 0.05), (-2.94, 0.02), (-1.72, 0.02), (0.97, 0.01), (-2.79, 0.01), (-0.92, 0.01),
        (-1.38, 0.01)
    ),
}  # fmt: skip

BASELINES: dict[str, dict[str, Number]] = {
    "dropout": _by_set(
        (2.80, 0.13), (4.50, 0.18), (0.47, 0.01), (0.08, 0.0), (3.63, 0.04), (0.60, 0.01),
        (0.66, 0.06)
    ),
    "probabilistic backpropagation": _by_set(
        (2.795, 0.16), (5.241, 0.12), (0.903, 0.05), (0.071, 0.0), (4.028, 0.03), (0.643, 0.01),
        (0.848, 0.05)
    ),
    "deep GP": _by_set(
        (2.38, 0.12), (4.64, 0.11), (0.57, 0.02), (0.05, 0.0), (3.60, 0.03), (0.50, 0.01),
        (0.98, 0.09)
    ),
}  # fmt: skip

# As it is printed: the last but one deviation has lost a point.
PRINTED_RANKS: dict[str, Number] = {
    "dropout": (4.4, 1.7),
    "probabilistic backpropagation": (5.6, 0.5),
    "deep GP": (3.1, 1.8),
    "ARD": (3.0, 1.1),
    "ADD": (2.9, 10),
    "ARD-ADD": (2.0, 1.1),
}

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
