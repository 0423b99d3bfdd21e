"""Similarity joins for sessions of the package ``datafusion``."""

from __future__ import annotations

from typing import Any

from . import _core


class _LogicalCodec:
    __datafusion_codec_id__ = f"datafusion-similarity.{_core.__version__}"

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __datafusion_logical_extension_codec__(self, session: object = None) -> object:
        return self._capsule


class _PhysicalCodec:
    __datafusion_codec_id__ = f"datafusion-similarity.{_core.__version__}"

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __datafusion_physical_extension_codec__(self, session: object = None) -> object:
        return self._capsule


class Similarity:
    """Similarity joins for ``SessionContext.with_extensions``.

    Joins whose condition has a measure run by an index, with the rows that they have without it. The keywords
    SIMILARITY JOIN and NEAREST belong to the SQL of :class:`datafusion_similarity.Session`; here a join is written as
    ``JOIN .. ON``. The functions of SQL, such as ``jaccard``, become functions of the session.

    ``settings`` are options such as ``{"similarity.engine": "cpu"}``.

    Raises ``ImportError`` for a package ``datafusion`` of another major version than this package is built for.
    """

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._settings = dict(settings or {})

    def __datafusion_session_components__(self, ctx: Any) -> Any:
        """Lends the codecs, and adds the functions of SQL."""
        import datafusion

        _check_version(datafusion.__version__)
        for function in _core.scalar_functions():
            ctx.register_udf(datafusion.udf(function))
        return datafusion.SessionExtensionComponents(
            logical_extension_codecs=(_LogicalCodec(_core.logical_codec(ctx)),),
            physical_extension_codecs=(_PhysicalCodec(_core.physical_codec(ctx)),),
        )

    def __datafusion_session_planner__(self, ctx: Any, fallback: object) -> object:
        """Lends the planner of joins; every other operator is planned by it as ``datafusion`` does."""
        return _core.query_planner(ctx, self._settings)


def _check_version(found: str) -> None:
    wanted = _core.DATAFUSION_VERSION
    if found.split(".")[0] != wanted.split(".")[0]:
        raise ImportError(
            f"datafusion-similarity {_core.__version__} works with datafusion {wanted.split('.')[0]}, and this is "
            f"datafusion {found}; install datafusion=={wanted.split('.')[0]}.*"
        )
