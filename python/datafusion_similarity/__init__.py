"""Similarity joins over data frames and in SQL.

>>> import polars as pl
>>> from datafusion_similarity import fuzzy_join
>>> a = pl.DataFrame({"name": ["Anna Miller", "Bob Stone"]})
>>> b = pl.DataFrame({"name": ["Ana Miller", "Robert Stone"]})
>>> fuzzy_join(a, b, on="levenshtein(l.name, r.name) <= 1").rows()
[('Anna Miller', 'Ana Miller')]

Functions take pandas, polars, pyarrow, DuckDB and DataFusion frames, and give back the kind that came in.
"""

from . import measures
from ._clusters import cluster, dedupe
from ._core import DATAFUSION_VERSION, SimilarityError, __version__
from ._evaluation import estimate, evaluate, evaluate_clusters, threshold_sweep
from ._expressions import Expr, call, l, r
from ._extension import Similarity
from ._joins import fuzzy_join, nearest
from ._pairs import link, pairs
from ._report import report
from ._session import Query, Rows, Session

__all__ = [
    "DATAFUSION_VERSION",
    "Expr",
    "Query",
    "Rows",
    "Session",
    "Similarity",
    "SimilarityError",
    "__version__",
    "call",
    "cluster",
    "dedupe",
    "estimate",
    "evaluate",
    "evaluate_clusters",
    "fuzzy_join",
    "l",
    "link",
    "measures",
    "nearest",
    "pairs",
    "r",
    "report",
    "threshold_sweep",
]
