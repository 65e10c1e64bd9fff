"""Detection: surprise, thresholds, alarms, incidents, change points, and measures of detectors.

- `detector` has `SurpriseDetector`; its base class is in `judging`.
- `learning` decides which blocks the predictor learns; `background` models the whole population.
- `threshold` raises alarms at a wanted share. `incidents` raises them at a wanted rate of false
  incidents, using the statistics in `sides` and the p-values in `calibration`; `watch` connects it
  to a detector.
- `explanation` and, over numbers, `number_explanation` explain an incident from the `trace` of the
  last symbols, which has the `expectation` of each.
- `recipes` has the recommended detector for blocks, `per_key` a detector for each key (`key_state`
  is its state as bytes). `sequences` scores whole sequences, by p-values from
  `sequence_calibration`.
- `results` has the return values, `stide` is a peer method, and `roc` measures detectors.
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
