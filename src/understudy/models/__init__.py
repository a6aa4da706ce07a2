"""Models: the law of a whole measurement sequence, as a causal recursion."""

from understudy.models.autoregressive import AutoRegressive as AutoRegressive
from understudy.models.base import Model as Model
from understudy.models.family import Family as Family
from understudy.models.gauss_markov import GaussMarkov as GaussMarkov
from understudy.models.iid import IID as IID
from understudy.models.markov import Markov as Markov
from understudy.models.matrices import PerStep as PerStep
