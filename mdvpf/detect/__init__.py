"""Detection: surprise, thresholds, alarms, incidents, change points, and how good they are.

`detector` is the class; `learning` decides what the predictor learns from, and `background` is what
everybody does. Alarms come at a wanted share (`threshold`), or as incidents at a wanted rate of
false ones (`incidents`, with `watch` around it and `sides` and `calibration` beneath).
`explanation` says why, from the `trace` of the last symbols. `recipes` has the detector that is
recommended for blocks, `per_key` one for each key, and `sequences` scores whole sequences.
`results` has what is returned, `stide` is a peer, and `roc` measures detectors.
"""

from mdvpf.detect.background import Background
from mdvpf.detect.detector import SurpriseDetector
from mdvpf.detect.incidents import Incident
from mdvpf.detect.per_key import KeyedDetector
from mdvpf.detect.recipes import block_detector
from mdvpf.detect.results import Detection, DetectionResult
from mdvpf.detect.sequences import SequenceScore, SequenceScores, score_sequences

__all__ = [
    "Background",
    "Detection",
    "DetectionResult",
    "Incident",
    "KeyedDetector",
    "SequenceScore",
    "SequenceScores",
    "SurpriseDetector",
    "block_detector",
    "score_sequences",
]
