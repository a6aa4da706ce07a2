"""understudy: share a sensor stream and hide one fact behind it.

A sensor's readings follow a law that depends on a private parameter. `understudy` turns them, one
by one, into readings that have exactly the law of another, randomly drawn parameter.

The public names are below. They load on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from understudy.version import __version__

if TYPE_CHECKING:
    from understudy.adversaries.audited import Audit as Audit
    from understudy.adversaries.audited import load_audit as load_audit
    from understudy.adversaries.auditing import audit as audit
    from understudy.distortion.cost import Costs as Costs
    from understudy.distortion.cost import costs as costs
    from understudy.identify.grid import detect_grid as detect_grid
    from understudy.identify.identifier import Identifier as Identifier
    from understudy.identify.identifier import fit as fit
    from understudy.identify.storing import load_family as load_family
    from understudy.identify.storing import save_family as save_family
    from understudy.laws.atoms import Atoms as Atoms
    from understudy.laws.base import Law as Law
    from understudy.laws.copula import GaussianCopula as GaussianCopula
    from understudy.laws.gaussian import Gaussian as Gaussian
    from understudy.laws.gaussian_mixture import GaussianMixture as GaussianMixture
    from understudy.laws.independent import Independent as Independent
    from understudy.laws.mixture import Mixture as Mixture
    from understudy.laws.scalar import Scalar as Scalar
    from understudy.models.autoregressive import AutoRegressive as AutoRegressive
    from understudy.models.base import Model as Model
    from understudy.models.controlled import Controlled as Controlled
    from understudy.models.family import Family as Family
    from understudy.models.gauss_markov import GaussMarkov as GaussMarkov
    from understudy.models.general import General as General
    from understudy.models.hidden_markov import HiddenMarkov as HiddenMarkov
    from understudy.models.iid import IID as IID
    from understudy.models.markov import Markov as Markov
    from understudy.models.matrices import PerStep as PerStep
    from understudy.models.nonlinear import Nonlinear as Nonlinear
    from understudy.models.on_grid import OnGrid as OnGrid
    from understudy.models.quantised import Quantised as Quantised
    from understudy.models.residual import Residual as Residual
    from understudy.randomizer.causal.card import CausalCard as CausalCard
    from understudy.randomizer.causal.making import CausalDesign as CausalDesign
    from understudy.randomizer.causal.making import design_causal as design_causal
    from understudy.randomizer.constrained.constraints import ErrorAtLeast as ErrorAtLeast
    from understudy.randomizer.constrained.constraints import Floor as Floor
    from understudy.randomizer.constrained.constraints import Forbidden as Forbidden
    from understudy.randomizer.constrained.constraints import LocalDP as LocalDP
    from understudy.randomizer.constrained.constraints import MaximalLeakage as MaximalLeakage
    from understudy.randomizer.constrained.constraints import Multiples as Multiples
    from understudy.randomizer.constrained.constraints import PointwiseLeakage as PointwiseLeakage
    from understudy.randomizer.constrained.constraints import Same as Same
    from understudy.randomizer.constrained.constraints import TotalVariation as TotalVariation
    from understudy.randomizer.curve import Frontier as Frontier
    from understudy.randomizer.curve import frontier as frontier
    from understudy.randomizer.estimating import Estimator as Estimator
    from understudy.randomizer.guarantee import Guarantee as Guarantee
    from understudy.randomizer.making import design as design
    from understudy.randomizer.making import solve as solve
    from understudy.randomizer.priors.conditional import clock_priors as clock_priors
    from understudy.randomizer.priors.conditional import design_conditional as design_conditional
    from understudy.randomizer.priors.conditional import solve_conditional as solve_conditional
    from understudy.randomizer.priors.conditional_result import ConditionalDesign as ConditionalDesign
    from understudy.randomizer.priors.hull import worst_prior as worst_prior
    from understudy.randomizer.priors.robust import design_robust as design_robust
    from understudy.randomizer.priors.robust import solve_robust as solve_robust
    from understudy.randomizer.priors.robust_result import RobustDesign as RobustDesign
    from understudy.randomizer.pseudo.values import PseudoSearch as PseudoSearch
    from understudy.randomizer.pseudo.values import optimise_positions as optimise_positions
    from understudy.randomizer.pseudo.values import optimise_pseudo as optimise_pseudo
    from understudy.randomizer.result import Design as Design
    from understudy.randomizer.sampler import Randomizer as Randomizer
    from understudy.randomizer.storage import load_design as load_design
    from understudy.stream.ledger import Ledger as Ledger
    from understudy.stream.stream import Stream as Stream
    from understudy.transform.filter import Transform as Transform
    from understudy.transform.filter import disguise as disguise
    from understudy.transform.scores import colour as colour
    from understudy.transform.scores import loglik as loglik
    from understudy.transform.scores import sample as sample
    from understudy.transform.scores import whiten as whiten


_HOME = {
    "Audit": "adversaries.audited",
    "load_audit": "adversaries.audited",
    "audit": "adversaries.auditing",
    "Atoms": "laws.atoms",
    "GaussianCopula": "laws.copula",
    "GaussianMixture": "laws.gaussian_mixture",
    "Mixture": "laws.mixture",
    "General": "models.general",
    "HiddenMarkov": "models.hidden_markov",
    "Nonlinear": "models.nonlinear",
    "Quantised": "models.quantised",
    "Residual": "models.residual",
    "OnGrid": "models.on_grid",
    "detect_grid": "identify.grid",
    "Identifier": "identify.identifier",
    "fit": "identify.identifier",
    "load_family": "identify.storing",
    "save_family": "identify.storing",
    "Law": "laws.base",
    "Gaussian": "laws.gaussian",
    "Independent": "laws.independent",
    "Scalar": "laws.scalar",
    "AutoRegressive": "models.autoregressive",
    "Model": "models.base",
    "Controlled": "models.controlled",
    "Family": "models.family",
    "GaussMarkov": "models.gauss_markov",
    "IID": "models.iid",
    "Markov": "models.markov",
    "PerStep": "models.matrices",
    "Costs": "distortion.cost",
    "costs": "distortion.cost",
    "CausalDesign": "randomizer.causal.making",
    "design_causal": "randomizer.causal.making",
    "CausalCard": "randomizer.causal.card",
    "Estimator": "randomizer.estimating",
    "Frontier": "randomizer.curve",
    "frontier": "randomizer.curve",
    "clock_priors": "randomizer.priors.conditional",
    "design_conditional": "randomizer.priors.conditional",
    "solve_conditional": "randomizer.priors.conditional",
    "ConditionalDesign": "randomizer.priors.conditional_result",
    "worst_prior": "randomizer.priors.hull",
    "PseudoSearch": "randomizer.pseudo.values",
    "optimise_positions": "randomizer.pseudo.values",
    "optimise_pseudo": "randomizer.pseudo.values",
    "design_robust": "randomizer.priors.robust",
    "solve_robust": "randomizer.priors.robust",
    "RobustDesign": "randomizer.priors.robust_result",
    "ErrorAtLeast": "randomizer.constrained.constraints",
    "Floor": "randomizer.constrained.constraints",
    "Forbidden": "randomizer.constrained.constraints",
    "LocalDP": "randomizer.constrained.constraints",
    "MaximalLeakage": "randomizer.constrained.constraints",
    "Multiples": "randomizer.constrained.constraints",
    "PointwiseLeakage": "randomizer.constrained.constraints",
    "Same": "randomizer.constrained.constraints",
    "TotalVariation": "randomizer.constrained.constraints",
    "Guarantee": "randomizer.guarantee",
    "design": "randomizer.making",
    "solve": "randomizer.making",
    "Design": "randomizer.result",
    "Randomizer": "randomizer.sampler",
    "load_design": "randomizer.storage",
    "Ledger": "stream.ledger",
    "Stream": "stream.stream",
    "Transform": "transform.filter",
    "disguise": "transform.filter",
    "colour": "transform.scores",
    "loglik": "transform.scores",
    "sample": "transform.scores",
    "whiten": "transform.scores",
}

_MODULES = (
    "adversaries",
    "checks",
    "distortion",
    "errors",
    "identify",
    "laws",
    "models",
    "randomizer",
    "report",
    "stream",
    "transform",
)

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"understudy.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"understudy.{name}")
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
