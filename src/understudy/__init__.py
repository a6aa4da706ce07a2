"""understudy: share a sensor stream and hide one fact behind it.

A sensor's readings follow a law that depends on a private parameter. `understudy` turns them, one
by one, into readings that have exactly the law of another, randomly drawn parameter.

The public names are below. They load on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from understudy._version import __version__

if TYPE_CHECKING:
    from understudy.adversaries.audit import audit as audit
    from understudy.adversaries.knowledge import Learner as Learner
    from understudy.adversaries.learners.inversion import recover_readings as recover_readings
    from understudy.adversaries.results import Audit as Audit
    from understudy.adversaries.results import load_audit as load_audit
    from understudy.adversaries.rivals import DistortionLimit as DistortionLimit
    from understudy.adversaries.rivals import distortion_limit as distortion_limit
    from understudy.adversaries.tuning import Tuning as Tuning
    from understudy.adversaries.tuning import tune as tune
    from understudy.adversaries.utility import measure_utility as measure_utility
    from understudy.apply.apply_file import apply_file as apply_file
    from understudy.apply.apply_file import apply_frame as apply_frame
    from understudy.distortion.costs import Costs as Costs
    from understudy.distortion.costs import costs as costs
    from understudy.identify.fit import Identifier as Identifier
    from understudy.identify.fit import fit as fit
    from understudy.identify.fit import load_family as load_family
    from understudy.identify.fit import save_family as save_family
    from understudy.identify.grid import detect_grid as detect_grid
    from understudy.laws.atoms import Atoms as Atoms
    from understudy.laws.gaussian import Gaussian as Gaussian
    from understudy.laws.law import Law as Law
    from understudy.laws.mixture import Mixture as Mixture
    from understudy.laws.multivariate import GaussianCopula as GaussianCopula
    from understudy.laws.multivariate import GaussianMixture as GaussianMixture
    from understudy.laws.multivariate import Independent as Independent
    from understudy.laws.scalar import Scalar as Scalar
    from understudy.models.adaptive import Adaptive as Adaptive
    from understudy.models.adaptive import AdaptivePrior as AdaptivePrior
    from understudy.models.autoregressive import AutoRegressive as AutoRegressive
    from understudy.models.family import Controlled as Controlled
    from understudy.models.family import Family as Family
    from understudy.models.gauss_markov import GaussMarkov as GaussMarkov
    from understudy.models.gauss_markov import PerStep as PerStep
    from understudy.models.general import General as General
    from understudy.models.hidden_markov import HiddenMarkov as HiddenMarkov
    from understudy.models.iid_markov import IID as IID
    from understudy.models.iid_markov import Markov as Markov
    from understudy.models.model import Model as Model
    from understudy.models.model import Residual as Residual
    from understudy.models.nonlinear import Nonlinear as Nonlinear
    from understudy.models.quantised import OnGrid as OnGrid
    from understudy.models.quantised import Quantised as Quantised
    from understudy.models.quantised_residual import residual_table as residual_table
    from understudy.randomizer.causal import CausalDesign as CausalDesign
    from understudy.randomizer.causal import at_most as at_most
    from understudy.randomizer.causal import design_causal as design_causal
    from understudy.randomizer.causal import path_distortion as path_distortion
    from understudy.randomizer.causal import per_day as per_day
    from understudy.randomizer.causal import true_distortion as true_distortion
    from understudy.randomizer.causal import was_ever as was_ever
    from understudy.randomizer.causal_guarantee import CausalCard as CausalCard
    from understudy.randomizer.causal_guarantee import causal_card as causal_card
    from understudy.randomizer.coin import CoinDesign as CoinDesign
    from understudy.randomizer.coin import design_coin as design_coin
    from understudy.randomizer.constraints import ErrorAtLeast as ErrorAtLeast
    from understudy.randomizer.constraints import Floor as Floor
    from understudy.randomizer.constraints import Forbidden as Forbidden
    from understudy.randomizer.constraints import LocalDP as LocalDP
    from understudy.randomizer.constraints import MaximalLeakage as MaximalLeakage
    from understudy.randomizer.constraints import PointwiseLeakage as PointwiseLeakage
    from understudy.randomizer.constraints import Same as Same
    from understudy.randomizer.constraints import TotalVariation as TotalVariation
    from understudy.randomizer.design import Design as Design
    from understudy.randomizer.design import Randomizer as Randomizer
    from understudy.randomizer.design import design as design
    from understudy.randomizer.design import load_design as load_design
    from understudy.randomizer.design import solve as solve
    from understudy.randomizer.estimation import Estimator as Estimator
    from understudy.randomizer.frontier import Frontier as Frontier
    from understudy.randomizer.frontier import frontier as frontier
    from understudy.randomizer.guarantee import Guarantee as Guarantee
    from understudy.randomizer.priors import ConditionalDesign as ConditionalDesign
    from understudy.randomizer.priors import RobustDesign as RobustDesign
    from understudy.randomizer.priors import clock_priors as clock_priors
    from understudy.randomizer.priors import design_conditional as design_conditional
    from understudy.randomizer.priors import design_robust as design_robust
    from understudy.randomizer.priors import solve_conditional as solve_conditional
    from understudy.randomizer.priors import solve_robust as solve_robust
    from understudy.randomizer.priors import worst_prior as worst_prior
    from understudy.randomizer.pseudo import PseudoSearch as PseudoSearch
    from understudy.randomizer.pseudo import optimise_positions as optimise_positions
    from understudy.randomizer.pseudo import optimise_pseudo as optimise_pseudo
    from understudy.stream.fleet import Decisions as Decisions
    from understudy.stream.fleet import Fleet as Fleet
    from understudy.stream.inspection import backup_ledger as backup_ledger
    from understudy.stream.ledger import Ledger as Ledger
    from understudy.stream.randomness import MasterKey as MasterKey
    from understudy.stream.stream import Stream as Stream
    from understudy.transform.core import Transform as Transform
    from understudy.transform.core import colour as colour
    from understudy.transform.core import disguise as disguise
    from understudy.transform.core import loglik as loglik
    from understudy.transform.core import sample as sample
    from understudy.transform.core import whiten as whiten
    from understudy.transform.roundoff import roundoff as roundoff


_HOME = {
    "audit": "adversaries.audit",
    "Learner": "adversaries.knowledge",
    "recover_readings": "adversaries.learners.inversion",
    "Audit": "adversaries.results",
    "load_audit": "adversaries.results",
    "DistortionLimit": "adversaries.rivals",
    "distortion_limit": "adversaries.rivals",
    "Tuning": "adversaries.tuning",
    "tune": "adversaries.tuning",
    "measure_utility": "adversaries.utility",
    "apply_file": "apply.apply_file",
    "apply_frame": "apply.apply_file",
    "Costs": "distortion.costs",
    "costs": "distortion.costs",
    "Identifier": "identify.fit",
    "fit": "identify.fit",
    "load_family": "identify.fit",
    "save_family": "identify.fit",
    "detect_grid": "identify.grid",
    "Atoms": "laws.atoms",
    "Gaussian": "laws.gaussian",
    "Law": "laws.law",
    "Mixture": "laws.mixture",
    "GaussianCopula": "laws.multivariate",
    "GaussianMixture": "laws.multivariate",
    "Independent": "laws.multivariate",
    "Scalar": "laws.scalar",
    "Adaptive": "models.adaptive",
    "AdaptivePrior": "models.adaptive",
    "AutoRegressive": "models.autoregressive",
    "Controlled": "models.family",
    "Family": "models.family",
    "GaussMarkov": "models.gauss_markov",
    "PerStep": "models.gauss_markov",
    "General": "models.general",
    "HiddenMarkov": "models.hidden_markov",
    "IID": "models.iid_markov",
    "Markov": "models.iid_markov",
    "Model": "models.model",
    "Residual": "models.model",
    "Nonlinear": "models.nonlinear",
    "OnGrid": "models.quantised",
    "Quantised": "models.quantised",
    "residual_table": "models.quantised_residual",
    "CausalDesign": "randomizer.causal",
    "at_most": "randomizer.causal",
    "design_causal": "randomizer.causal",
    "path_distortion": "randomizer.causal",
    "per_day": "randomizer.causal",
    "true_distortion": "randomizer.causal",
    "was_ever": "randomizer.causal",
    "CoinDesign": "randomizer.coin",
    "design_coin": "randomizer.coin",
    "CausalCard": "randomizer.causal_guarantee",
    "causal_card": "randomizer.causal_guarantee",
    "ConditionalDesign": "randomizer.priors",
    "clock_priors": "randomizer.priors",
    "design_conditional": "randomizer.priors",
    "solve_conditional": "randomizer.priors",
    "ErrorAtLeast": "randomizer.constraints",
    "Floor": "randomizer.constraints",
    "Forbidden": "randomizer.constraints",
    "LocalDP": "randomizer.constraints",
    "MaximalLeakage": "randomizer.constraints",
    "PointwiseLeakage": "randomizer.constraints",
    "Same": "randomizer.constraints",
    "TotalVariation": "randomizer.constraints",
    "Design": "randomizer.design",
    "design": "randomizer.design",
    "load_design": "randomizer.design",
    "solve": "randomizer.design",
    "Estimator": "randomizer.estimation",
    "Frontier": "randomizer.frontier",
    "frontier": "randomizer.frontier",
    "Guarantee": "randomizer.guarantee",
    "PseudoSearch": "randomizer.pseudo",
    "optimise_positions": "randomizer.pseudo",
    "optimise_pseudo": "randomizer.pseudo",
    "Randomizer": "randomizer.design",
    "RobustDesign": "randomizer.priors",
    "design_robust": "randomizer.priors",
    "solve_robust": "randomizer.priors",
    "worst_prior": "randomizer.priors",
    "backup_ledger": "stream.inspection",
    "Decisions": "stream.fleet",
    "Fleet": "stream.fleet",
    "Ledger": "stream.ledger",
    "MasterKey": "stream.randomness",
    "Stream": "stream.stream",
    "Transform": "transform.core",
    "colour": "transform.core",
    "disguise": "transform.core",
    "loglik": "transform.core",
    "sample": "transform.core",
    "whiten": "transform.core",
    "roundoff": "transform.roundoff",
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
    "sklearn",
    "spark",
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
