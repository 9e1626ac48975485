"""Going on with a run that was broken off, or that shall have more steps."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dvisr.estimator import saving
from dvisr.estimator.progress import progress_for
from dvisr.estimator.recording import LOG, Recorder, latest_snapshot
from dvisr.fitting.progress import Progress
from dvisr.runs import folder

if TYPE_CHECKING:
    from dvisr.estimator.regressor import DVISRRegressor
    from dvisr.estimator.table import TableRegressor


def resume_run(
    path: Any,
    progress: Progress | None,
    made: list[TableRegressor] | None = None,
    *,
    num_steps: int | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> DVISRRegressor:
    """The model that the run would have come to; see `ResumingMixin`. It is put into the
    list `made` before it is fitted: it may be there though it could not be saved."""
    place = Path(path)
    if not folder.is_run(place):
        raise ValueError(
            f"there is no run in {str(path)!r}: give the folder that a fit was kept in"
        )
    with folder.lock(place):
        begun = saving.read_beginning(place)
        if not begun.can_be_resumed:
            raise ValueError(
                f"the fit in {str(path)!r} was saved when it was done, or went on from another one "
                f"(warm_start), and can't be resumed: fit anew with a run_dir"
            )
        model = begun.model
        model.run_dir, model.n_jobs = path, n_jobs
        model.num_steps = model.num_steps if num_steps is None else num_steps
        model.max_time = model.max_time if max_time is None else max_time
        budget = model._budget()
        snapshot, faults = latest_snapshot(place)
        num_made = 0 if snapshot is None else snapshot.num_steps
        for fault in faults:
            warnings.warn(f"going on from step {num_made}: {fault}", UserWarning, stacklevel=3)
        if budget.num_steps is not None and num_made > budget.num_steps:
            raise ValueError(
                f"the run in {str(path)!r} has made {num_made} steps already: ask for more than "
                f"that in all, or for no number"
            )
        if saving.is_answered(place, budget.num_steps):
            return _noted(saving.load(path), made)
        log = folder.read(place, LOG).decode(errors="replace")
        recorder = Recorder(place, log, snapshot, faults)
        recorder.resume(model, begun.problem, begun.seed)
        fitter = _noted(model, made)._fitter_for()
        return model._fitted(fitter, begun.problem, budget, begun.seed, progress, recorder)


def _noted(model: DVISRRegressor, made: list[TableRegressor] | None) -> DVISRRegressor:
    if made is not None:
        made.append(model)
    return model


class ResumingMixin:
    """`DVISRRegressor.resume`."""

    @classmethod
    def resume(
        cls,
        path: Any,
        *,
        num_steps: int | None = None,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> DVISRRegressor:
        """Go on with a fit that was broken off, or give it more steps. The answer is, to the last
        bit, that of a fit that was not broken off, for the same number of steps.

        Parameters
        ----------
        path : str or Path
            The `run_dir` of the fit.
        num_steps : int, optional
            Steps in all, those made before included; as it was asked for, if not given.
        max_time : float, optional
            Seconds more; as many as the fit was given, if not given.
        n_jobs : int, optional
            Threads; None or -1 for all cores.
        verbose : int, default=0
            0 for silence, 1 for progress on standard error.

        Returns
        -------
        DVISRRegressor
        """
        with progress_for(verbose) as progress:
            return resume_run(path, progress, num_steps=num_steps, max_time=max_time, n_jobs=n_jobs)
