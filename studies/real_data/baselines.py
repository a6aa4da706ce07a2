"""The published baselines on raw readings, reproduced: presence from the CO2 of the same minute alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from studies.real_data.data import candanedo

PUBLISHED = {"LDA": {"test": 0.862, "test2": 0.799}, "random forest": {"test": 0.788, "test2": 0.642}}
"""Candanedo and Feldheim (2016), accuracy by CO2 alone, from the authors' script."""


def baselines(root: Path) -> dict[str, Any]:
    """Accuracy and balanced accuracy of both on both test files, with the published figures beside them."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier

    frames = candanedo(root)
    models = {
        "LDA": LinearDiscriminantAnalysis(),
        "random forest": RandomForestClassifier(n_estimators=500, max_features=1, random_state=0),
    }
    rows = []
    for name, model in models.items():
        model.fit(frames["train"]["CO2"][:, None], frames["train"]["Occupancy"])
        for test in ("test", "test2"):
            truth = frames[test]["Occupancy"]
            guess = model.predict(frames[test]["CO2"][:, None])
            recall = [float((guess[truth == value] == value).mean()) for value in (0, 1)]
            rows.append(
                {
                    "model": name,
                    "test": test,
                    "accuracy": float((guess == truth).mean()),
                    "published": PUBLISHED[name][test],
                    "balanced": float(np.mean(recall)),
                    "majority": float(max(truth.mean(), 1.0 - truth.mean())),
                }
            )
    return {"rows": rows}
