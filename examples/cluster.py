"""One ensemble on the devices of several processes, on one machine or on many.

On a cluster, start it once on each machine, with whatever starts jobs there. JAX finds the other
processes by itself under Slurm, Open MPI and Kubernetes:

    srun python examples/cluster.py --output /shared/ensemble.scalemix

Anywhere else, say how many there are, and where the first one is to be found:

    JAX_NUM_CPU_DEVICES=2 python examples/cluster.py --coordinator localhost:9876 \\
        --num-processes 2 --process-id 0 &
    JAX_NUM_CPU_DEVICES=2 python examples/cluster.py --coordinator localhost:9876 \\
        --num-processes 2 --process-id 1

All processes read the same table and the same checkpoint, from a file system that they share. Each
trains its part of the members, on its part of the rows. Only process 0 writes. If a process dies,
the others end within `TIMEOUT` seconds. Start all of them again, in any number, and they go on from
the last checkpoint.
"""

import argparse
from pathlib import Path

import jax

import scalemix as sx

# How long a process may be silent before the others give it up.
TIMEOUT = 30


def main() -> None:
    """Train, and let process 0 save what all have trained."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--coordinator")
    parser.add_argument("--num-processes", type=int)
    parser.add_argument("--process-id", type=int)
    parser.add_argument("--output", type=Path, default=Path("out/ensemble.scalemix"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--data", type=int, default=1, help="devices that share a batch")
    given = parser.parse_args()

    # Before anything else that asks for devices.
    jax.distributed.initialize(
        given.coordinator, given.num_processes, given.process_id,
        heartbeat_timeout_seconds=TIMEOUT, shutdown_timeout_seconds=TIMEOUT,
    )  # fmt: skip
    num = jax.device_count()
    mesh = jax.make_mesh((num // given.data, given.data), ("members", "data"))

    data = sx.data.load("yacht")
    train, test = sx.data.splits(len(data.y))[0]
    network = sx.networks.ResNet(data.x.shape[1], "scalar", 50, 2, key=jax.random.key(0))
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian())
    method = sx.VariationalEM(
        steps=given.steps, chunk_steps=min(100, given.steps), num_members=8, batch_size=64
    )
    checkpoint = given.output.with_suffix(".checkpoint")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    posterior = sx.fit(
        model, data.x[train], data.y[train], method, key=jax.random.key(1), mesh=mesh,
        checkpoint=checkpoint, checkpoint_every=1, resume=checkpoint.exists(),
    )  # fmt: skip
    # Every process has the whole ensemble now.
    if jax.process_index() == 0:
        posterior.save(given.output)
        log_prob = posterior.predict(data.x[test]).log_prob(data.y[test]).mean()
        print(f"{num} devices, {jax.process_count()} processes: {log_prob:.3f} nats a row")


if __name__ == "__main__":
    main()
