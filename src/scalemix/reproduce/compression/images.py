"""The images, which the package does not hold."""

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scalemix.reproduce.compression.networks import NUM_CLASSES, SIDE

ENTRIES = ("x_train", "y_train", "x_test", "y_test")
WHERE = (
    f"It is one .npz file with {', '.join(ENTRIES[:-1])} and {ENTRIES[-1]}: images of {SIDE} by "
    f"{SIDE} pixels from 0 to 255, and digits. Keras has it as "
    f"https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz."
)


class Images(NamedTuple):
    """Images with pixels from zero to one, and what they show."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def read_images(file: str | Path | None) -> Images:
    """The training and test images of a file such as mnist.npz, or a `ValueError`."""
    if file is None:
        raise ValueError(f"MNIST is not part of the package: give the path of its file. {WHERE}")
    try:
        with np.load(Path(file), allow_pickle=False) as content:
            x, y, x_test, y_test = (np.asarray(content[name]) for name in ENTRIES)
    except FileNotFoundError:
        raise ValueError(f"There is no file {str(file)!r} to read MNIST from. {WHERE}") from None
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{str(file)!r} cannot be read as MNIST: {error} {WHERE}") from None
    for name, images, digits in (("train", x, y), ("test", x_test, y_test)):
        good = images.shape == (len(digits), SIDE, SIDE) and digits.ndim == 1 and len(digits)
        if not (good and np.isin(digits, np.arange(NUM_CLASSES)).all()):
            raise ValueError(
                f"x_{name} of {str(file)!r} has the shape {images.shape} and y_{name} "
                f"{digits.shape}. {WHERE}"
            )
    pixels = ((images / 255).astype(np.float32) for images in (x, x_test))
    x, x_test = pixels
    return Images(x, y.astype(np.int32), x_test, y_test.astype(np.int32))
