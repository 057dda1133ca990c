"""What becomes of uncertainty as data accumulate, by each way of inference."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from scalemix.fitting.front_door import fit_many
from scalemix.inference import MCMC, NoiseTraining, VariationalEM
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli, InverseGamma
from scalemix.model.model import Model
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.figures.drawing import COLOURS, canvas
from scalemix.structures import ARD

NUM_ROWS = (40, 160, 640)
WEIGHTS = np.array([1.0, -0.5, 0.25])
NOISE = 0.5


def measure(effort: float) -> Numbers:
    """The spread of the function at new inputs, for each number of rows and each engine."""
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(n, len(WEIGHTS))) for n in NUM_ROWS]
    ys = [x @ WEIGHTS + NOISE * rng.normal(size=len(x)) for x in xs]
    new = rng.normal(size=(50, len(WEIGHTS)))
    network = eqx.nn.Linear(len(WEIGHTS), "scalar", key=jax.random.key(0))
    steps = max(20, round(2000 * effort))
    engines: dict[str, tuple[Any, Any]] = {
        "dropout": (Bernoulli(0.9), NoiseTraining(steps=steps)),
        "EM": (InverseGamma(3.0, 3.0), VariationalEM(steps=steps)),
        "chains": (
            InverseGamma(3.0, 3.0),
            MCMC(
                num_warmup=max(5, round(200 * effort)), num_samples=max(10, round(200 * effort)),
                max_depth=4, warm_start=False,
            ),
        ),
    }  # fmt: skip
    spreads = {}
    for name, (mixture, method) in engines.items():
        posteriors = fit_many(
            Model(network, ARD(mixture), Gaussian()), xs, ys, method,
            keys=jax.random.split(jax.random.key(1), len(xs)), progress=False,
        )  # fmt: skip
        spreads[name] = [
            float(np.sqrt(np.mean(np.square(p.predict(new).epistemic)))) for p in posteriors
        ]
    return {"num_rows": list(NUM_ROWS), "spreads": spreads}


def power(numbers: Numbers, engine: str) -> float:
    """The power of the number of rows that the spread follows."""
    spread = numbers["spreads"][engine]
    return float(np.polyfit(np.log(numbers["num_rows"]), np.log(spread), 1)[0])


def judge(numbers: Numbers) -> list[Verdict]:
    """Powers of the number of rows."""
    powers = {engine: power(numbers, engine) for engine in numbers["spreads"]}
    spread = numbers["spreads"]["dropout"]
    ends = f"{numbers['num_rows'][0]} to {numbers['num_rows'][-1]} rows"
    return [
        Verdict(
            all(abs(powers[engine] + 0.5) < 0.15 for engine in ("EM", "chains")),
            f"The posterior contracts: from {ends} the spread follows their number to the power "
            f"{powers['EM']:.2f} by variational EM and {powers['chains']:.2f} by chains, where "
            f"-0.5 is expected.",
        ),
        Verdict(
            powers["dropout"] < -0.35,
            f"So does dropout's. Its predictions draw noise from the prior, and their spread goes "
            f"from {spread[0]:.2f} to {spread[-1]:.2f}: power {powers['dropout']:.2f}. That the "
            f"noise is a prior answers the criticism for the model, and not for a method that "
            f"predicts with noise that has seen no data.",
        ),
    ]


def draw(numbers: Numbers) -> Any:
    """Spread against the number of rows."""
    figure, ((axis,),) = canvas(1, 1, 6, 3.6)
    rows = numbers["num_rows"]
    for (name, spread), colour in zip(numbers["spreads"].items(), COLOURS, strict=False):
        axis.loglog(rows, spread, marker="o", color=colour, label=name)
    first = numbers["spreads"]["chains"][0]
    falling = [first * (n / rows[0]) ** -0.5 for n in rows]
    axis.loglog(rows, falling, ":", color=COLOURS[6], label=r"$1/\sqrt{N}$")
    axis.set_xticks(rows, [str(n) for n in rows])
    axis.xaxis.minorticks_off()
    axis.set_xlabel("number of rows")
    axis.set_ylabel("spread of the function")
    axis.legend(frameon=False, fontsize="small")
    return figure


CONTRACTION = Claim(
    name="contraction",
    title="The posterior contracts as data arrive",
    source="Section 6, on the criticism of variational dropout",
    statement=(
        "Variational dropout was criticised because its posterior does not contract as data "
        "arrive. If the noise is a prior, it is natural that its rate is fixed, and the criticism "
        "does not apply."
    ),
    method=(
        "A linear model on growing data, by noise training at a drop rate of .1, by variational "
        "EM and by chains under inverse gamma scales: the standard deviation of the function at "
        "50 new inputs."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
