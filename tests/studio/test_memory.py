"""What a studio that is used for long keeps: nothing that grows."""

from __future__ import annotations

import pytest
from studio_cases import history, studio


@pytest.mark.long(seconds=120, reason="fifty fits, with three processes for each")
def test_fifty_loads_and_fits_leave_nothing(tmp_path):
    """Memory after fifty is within 1.2 times that after ten, and no child process is left."""
    sizes = []
    with studio(tmp_path) as running:
        running.enter()
        for k in range(50):
            path = history(tmp_path / "room.csv", days=6, per_day=48, seed=100 + k)
            assert running.upload("room.csv", path.read_bytes()).status == 200
            running.settle()
            running.post("/api/data", {"reading": ["co2"], "private": "occupancy", "time": "time"})
            running.settle()
            running.post("/api/fit", {"model": "AR(1), normal"})
            state = running.settle()
            assert state["failure"] is None
            assert state["fit"]["model"] == "AR(1), normal"
            sizes.append(running.memory())
        assert running.children() == []
        assert len(list(running.folder.rglob("upload-*"))) == 1
    assert sizes[-1] <= 1.2 * sizes[9]
