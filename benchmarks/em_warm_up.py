"""Which share of the steps EM's temperature should rise over, told by held-out training rows.

`python benchmarks/em_warm_up.py` (made for a GPU) fits the single posteriors of the reproduction's
Table 2 to four fifths of each of the twenty training sets and writes the log-likelihood per
held-out row, on the standardised target, to benchmarks/results/em_warm_up.json. Test rows take no
part.
"""

import json

import jax
from common import RESULTS, machine

import scalemix as sx
from scalemix import Candidate
from scalemix.data.preparation import prepare
from scalemix.fitting.trials import try_out
from scalemix.reproduce.cells import STRUCTURES, WIDTH

SETS = {
    "boston": ("ARD-ADD", "ARD"),
    **dict.fromkeys(("concrete", "energy", "wine", "yacht"), ("ARD-ADD",)),
}
SHARES = (0.1, 0.3)
NUM_SPLITS = 20


def held_out(name: str, structure: str, share: float) -> list[float]:
    """The mean log-likelihood of the held-out rows of each split."""
    data = sx.data.load(name)
    keys = jax.random.split(jax.random.key(11), NUM_SPLITS)
    prior = STRUCTURES[structure](sx.InverseGamma(3.0, 3.0))
    method = sx.VariationalEM(steps=20_000, batch_size=32, warm_up=share)
    models = [
        sx.Model(
            sx.networks.ResNet(data.x.shape[1], "scalar", WIDTH, 2, key=key),
            prior,
            sx.likelihoods.Gaussian(),
        )
        for key in keys
    ]
    tried = try_out(
        [[Candidate(model, method)] for model in models],
        [
            prepare(models[0], data.x[rows], data.y[rows], None, True)[0]
            for rows, _ in sx.data.splits(len(data.y))[:NUM_SPLITS]
        ],
        1,
        0.2,
        jax.random.split(jax.random.key(12), NUM_SPLITS),
        jax.random.split(jax.random.key(13), NUM_SPLITS),
    )
    return [float(candidate.log_prob.mean()) for candidate in tried]


def main() -> None:
    """Measure and write."""
    scores = {
        name: {
            structure: {str(share): held_out(name, structure, share) for share in SHARES}
            for structure in structures
        }
        for name, structures in SETS.items()
    }
    results = {**machine(), "held_out_log_likelihood": scores}
    (RESULTS / "em_warm_up.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
