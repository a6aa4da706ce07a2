"""Laws: the conditional law of one reading, as a map to scores and back."""

from understudy.laws.base import Law as Law
from understudy.laws.gaussian import Gaussian as Gaussian
from understudy.laws.independent import Independent as Independent
from understudy.laws.scalar import Scalar as Scalar
from understudy.laws.shifted import Shifted as Shifted
