"""Detection: surprise, thresholds, alarms, change points, and how good they are.

`detector` is the class; `threshold` averages surprise and judges it, `learning` decides what the
predictor learns from, `results` has what is returned, and `roc` measures detectors.
"""

from mdvpf.detect.detector import SurpriseDetector
from mdvpf.detect.results import Detection, DetectionResult

__all__ = ["Detection", "DetectionResult", "SurpriseDetector"]
