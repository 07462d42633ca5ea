"""Makes tests/data/statistics.json: what scipy says about samples that the Rust tests look at too.

Run:  python -m venv v && v/bin/pip install scipy && v/bin/python crates/rollout/tests/tools/statistics.py
"""

import json
import pathlib
import random

import scipy
from scipy.stats import hypergeom, mannwhitneyu, nchypergeom_fisher

dice = random.Random(20260101)


def sample(count, tied, shift):
    if tied:
        return [float(dice.randint(0, 12)) + shift for _ in range(count)]
    return [round(dice.lognormvariate(0, 0.7) + shift, 9) for _ in range(count)]


def rank_cases():
    cases = []
    for first, second, tied in [
        (3, 4, False), (5, 5, False), (8, 20, False), (20, 20, False), (2, 30, False),
        (40, 60, False), (100, 30, False), (10, 12, True), (50, 50, True), (6, 6, True),
    ]:
        for shift in [0.0, 0.4, -0.4] if not tied else [0.0, 1.0]:
            x, y = sample(first, tied, shift), sample(second, tied, 0.0)
            exact = not tied and first * second <= 400
            method = "exact" if exact else "asymptotic"
            for alternative in ["greater", "less", "two-sided"]:
                found = mannwhitneyu(x, y, alternative=alternative, method=method, use_continuity=True)
                cases.append({
                    "first": x, "second": y, "alternative": alternative, "exact": exact,
                    "u": found.statistic, "p": found.pvalue,
                })
    return cases


def batch_cases():
    cases = []
    for first, second, events, on_first in [
        (10, 40, 3, 1), (10, 40, 3, 3), (100, 100, 20, 15), (100, 900, 50, 2), (500, 500, 400, 230),
        (5, 5, 9, 5), (1000, 20000, 300, 30), (7, 3, 10, 7),
    ]:
        for odds in [1.1, 1.5, 2.0, 10.0, 1 / 1.25, 1 / 10.0]:
            central = hypergeom.pmf(on_first, first + second, first, events)
            shifted = nchypergeom_fisher.pmf(on_first, first + second, first, events, odds)
            cases.append({
                "first": {"events": on_first, "total": first},
                "second": {"events": events - on_first, "total": second},
                "odds": odds, "ratio": shifted / central,
            })
    return cases


target = pathlib.Path(__file__).parent.parent / "data" / "statistics.json"

def lines(cases):
    return ",\n".join(json.dumps(case) for case in cases)


target.write_text(
    f'{{"scipy": "{scipy.__version__}",\n"rank": [\n{lines(rank_cases())}\n],\n"batches": [\n{lines(batch_cases())}\n]}}\n'
)
