"""Layouts over two processes with two devices each: `tests/test_processes.py` runs both.

`python -m tests.processes_script PLACE INDEX` fails if arrays do not come back from the devices as
they went there, or if members draw other numbers than without a mesh.
"""

import sys

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from scalemix._mesh import over_members
from scalemix.inference.groups import Groups
from scalemix.inference.layout import Layout


@eqx.filter_jit
def draw(mesh, axis, keys):
    each = jax.vmap(jax.vmap(lambda key: jax.random.bits(key, (3,))))
    return over_members(each, mesh, [axis], axis)(keys)


def check(mesh: Mesh, num: int, axis: int) -> Layout:
    """So many members, along this axis of arrays whose other axis has two entries."""
    layout = Layout.over(mesh, num, axis)
    shape = (num, 2) if axis == 0 else (2, num)
    rng = np.random.default_rng(0)
    tree = {
        "numbers": rng.normal(size=(*shape, 3)),
        "few": rng.normal(size=shape).astype(np.float16),
        "nothing": np.zeros((*shape, 0), np.float32),
        "truths": rng.normal(size=shape) > 0,
    }
    back = layout.cut(layout.place(tree))
    for name, values in tree.items():
        # JAX has single precision.
        expected = values.astype(np.float32) if name == "numbers" else values
        assert back[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(back[name], expected, err_msg=name)
    keys = jax.random.split(jax.random.key(1), shape)
    groups = Groups.of(layout)
    arguments = [(layout.mesh, axis, part) for part in groups.split(layout.place(keys))]
    drawn = layout.cut(groups.run(draw, arguments))
    np.testing.assert_array_equal(drawn, draw(None, axis, keys))
    sets, which = rng.normal(size=(3, 4)).astype(np.float32), np.arange(num) % 3
    placed = layout.place_sets(sets, which)
    if axis == 0:
        read = jax.jit(over_members(lambda sets, which: sets[which], layout.mesh, [0, 0], 0))
        np.testing.assert_array_equal(layout.cut(read(*placed)), sets[which])
    return layout


def main(place: str, index: int) -> None:
    jax.distributed.initialize(place, 2, index)
    devices = np.array(jax.devices()).reshape(2, 2)
    names = ("members", "data")
    apart, beside = Mesh(devices.reshape(4, 1), names), Mesh(devices, names)
    one_each, across = Mesh(devices[:, :1], names), Mesh(devices.T, names)
    for num, axis in ((5, 0), (32, 0), (5, 1), (4, 1)):
        for mesh in (apart, beside, one_each):
            layout = check(mesh, num, axis)
            # A process's programs are its own, and one device needs no mesh.
            assert layout.mesh is None or not layout.mesh.is_multi_process
            assert (layout.mesh is None) == (mesh is one_each)
        # Processes that share the rows of a batch share programs.
        assert check(across, num, axis).mesh == across
    # Members of a device in groups, but where its rows are those of another device too.
    for mesh, work in ((apart, 8), (one_each, 16)):
        groups = Groups.of(Layout.over(mesh, 32))
        assert groups.num * groups.size == work
        assert groups.num > 1
    assert Groups.of(Layout.over(beside, 32)).num == 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
