"""Pictures. Each function draws into axes that it is given, or into new ones, and returns them.

matplotlib is imported when a picture is asked for, and its settings are never changed. People with
any kind of colour vision can tell the colours apart (the palette of Okabe and Ito, and cividis).
"""

from scalemix.analysis.plots.axes import BLUE, GREY, RED, SKY
from scalemix.analysis.plots.effects import effect, importance
from scalemix.analysis.plots.families import densities
from scalemix.analysis.plots.prediction import calibration, class_calibration, intervals
from scalemix.analysis.plots.training import history, importance_weights
from scalemix.analysis.plots.weights import heat_map, heat_maps, relevance, second_moments

__all__ = [
    "BLUE",
    "GREY",
    "RED",
    "SKY",
    "calibration",
    "class_calibration",
    "densities",
    "effect",
    "heat_map",
    "heat_maps",
    "history",
    "importance",
    "importance_weights",
    "intervals",
    "relevance",
    "second_moments",
]
