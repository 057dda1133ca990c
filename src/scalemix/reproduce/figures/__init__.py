"""The paper's figures, as PNG and SVG, with what is measured on them."""

from scalemix.reproduce.figures.collection import FIGURES, Figure, figure_words

__all__ = ["FIGURES", "Figure", "figure_words"]
