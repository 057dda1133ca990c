"""MCMC against sklearn-contrib-bde 1.0.2: how good, and how long.

Run with `make benchmark-mcmc`, which gives that package a venv of its own, because it wants an
older BlackJAX. Two sets, the first four standard splits, split by split in alternation. Prints a
table and writes benchmarks/results/mcmc_peer.json. Our settings were searched on a tenth of the
training rows, held out, but not blindly: see benchmarks/README.md for the runs made on the way.
"""

import argparse
import time
import warnings

import jax
import numpy as np
from common import Peers, machine, publish

import scalemix as sx
from scalemix.posterior.diagnostics import ConvergenceWarning

SETS, NUM_SPLITS = ("yacht", "energy"), 4
PEER = "sklearn-contrib-bde"
MEASURES = ("rmse", "log_likelihood", "seconds")
METHOD = sx.MCMC(
    num_chains=8,
    num_warmup=1600,
    num_samples=500,
    thin=3,
    sampler="mclmc",
    energy_tolerance=0.1,
    warm_start_steps=3200,
)


def build(num_inputs: int, key) -> sx.Model:
    """Hidden layers 16-16 and per-input noise, as the peer has them."""
    network = sx.networks.MLP(num_inputs, 2, 16, 2, activation=jax.numpy.tanh, key=key)
    prior = sx.ARD(sx.InverseGamma(3.0, 3.0), scale=0.5)
    return sx.Model(network, prior, sx.likelihoods.Gaussian(per_input=True))


def fit_ours(x, y, x_test, y_test, key) -> dict[str, float]:
    """Our measures on one split."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Chains of a network are an ensemble of modes; see the README beside this file.
        warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = sx.fit(build(x.shape[1], key), x, y, METHOD, key=key)
    predictive = posterior.predict(x_test, num_draws=posterior.networks.num_samples)
    rmse, log_likelihood = sx.metrics.rmse(y_test, predictive.mean), predictive.log_prob(y_test)
    return {
        "rmse": float(rmse),
        "log_likelihood": float(log_likelihood.mean()),
        "seconds": time.perf_counter() - start,
    }


def compare(name: str, peers: Peers) -> dict[str, dict[str, list[float]]]:
    """Both packages' measures on each split of one set."""
    data = sx.data.load(name)
    scores = {who: {measure: [] for measure in MEASURES} for who in ("ours", "peer")}
    keys = jax.random.split(jax.random.key(1), NUM_SPLITS)
    splits = list(sx.data.splits(len(data.y)))[:NUM_SPLITS]
    for key, (train, test) in zip(keys, splits, strict=True):
        split = data.x[train], data.y[train], data.x[test], data.y[test]
        for who, result in (("peer", peers.fit(PEER, *split)), ("ours", fit_ours(*split, key))):
            print(name, who, {k: round(v, 3) for k, v in result.items()}, flush=True)
            for measure in MEASURES:
                scores[who][measure].append(result[measure])
    return scores


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer-python", required=True, help="a Python that has the other package")
    peers = Peers(parser.parse_args().peer_python)
    by_set = {name: compare(name, peers) for name in SETS}
    peers.close()
    rows = []
    for name, results in by_set.items():
        ours, theirs = (
            {measure: float(np.mean(values)) for measure, values in results[who].items()}
            for who in ("ours", "peer")
        )
        share = ours["seconds"] / theirs["seconds"]
        rows += [
            (f"{name}: RMSE", f"{ours['rmse']:.3f}", f"at most {theirs['rmse']:.3f}"),
            (
                f"{name}: log-likelihood",
                f"{ours['log_likelihood']:.2f}",
                f"at least {theirs['log_likelihood']:.2f}",
            ),
            (
                f"{name}: seconds a split",
                f"{ours['seconds']:.1f}",
                f"peer: {theirs['seconds']:.1f}",
            ),
            (f"{name}: share of the peer's time", f"{share:.2f}", "at most 0.50"),
        ]
    results = {**machine(), "peer": f"{PEER} 1.0.2", "method": repr(METHOD)}
    publish("mcmc_peer", rows, results | {"splits": by_set})


if __name__ == "__main__":
    main()
