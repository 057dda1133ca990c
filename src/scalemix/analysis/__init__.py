"""How good a fit is: measures, evaluation, pictures, and a report."""
