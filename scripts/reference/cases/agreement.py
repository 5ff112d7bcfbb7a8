#!/usr/bin/env python3
"""`fixtures/statistics/`: agreement and correlation as SciPy, scikit-learn, statsmodels and `krippendorff` have them.

    python scripts/reference/cases/agreement.py

Values with many ties, missing labels, few and many items. Needs scipy, scikit-learn, statsmodels and krippendorff
(`pip install --group scripts/pyproject.toml:statistics`).
"""

import json
from pathlib import Path


import numpy as np

OUT = Path(__file__).resolve().parents[3] / "fixtures" / "statistics" / "cases.json"


def correlations(random):
    from scipy import stats

    cases = []
    for n, levels in [(3, 2), (5, 3), (20, 3), (50, 7), (200, 4), (200, 0)]:
        for _ in range(4):
            x = random.integers(0, levels, n).astype(float) if levels else random.normal(size=n)
            noise = random.normal(size=n)
            y = np.round(x + noise) if levels else x * 0.5 + noise
            if len(set(x)) < 2 or len(set(y)) < 2:
                continue
            cases.append({
                "x": x.tolist(),
                "y": y.tolist(),
                "pearson": float(stats.pearsonr(x, y).statistic),
                "spearman": float(stats.spearmanr(x, y).statistic),
                "kendall_tau_b": float(stats.kendalltau(x, y, variant="b").statistic),
                "ranks_x": stats.rankdata(x).tolist(),
            })
    # A scale of units must not matter, nor must values that nearly agree.
    x = np.array([1e200, 2e200, 2e200, 5e200])
    y = np.array([1e-200, 3e-200, 2e-200, 9e-200])
    cases.append({
        "x": x.tolist(),
        "y": y.tolist(),
        "pearson": float(stats.pearsonr(x / 1e200, y / 1e-200).statistic),
        "spearman": float(stats.spearmanr(x, y).statistic),
        "kendall_tau_b": float(stats.kendalltau(x, y).statistic),
        "ranks_x": stats.rankdata(x).tolist(),
    })
    return cases


def two_annotators(random):
    from sklearn import metrics

    cases = []
    for n, categories in [(10, 2), (40, 3), (200, 3), (100, 7)]:
        for _ in range(3):
            first = random.integers(0, categories, n)
            second = np.where(random.random(n) < 0.7, first, random.integers(0, categories, n))
            labels = list(range(categories))
            kappa = {
                name: float(metrics.cohen_kappa_score(first, second, labels=labels, weights=weights))
                for name, weights in [("none", None), ("linear", "linear"), ("quadratic", "quadratic")]
            }
            truth, said = first > 0, second > 0
            cases.append({
                "first": first.tolist(),
                "second": second.tolist(),
                "categories": categories,
                "kappa": kappa,
                "confusion": metrics.confusion_matrix(first, second, labels=labels).tolist(),
                "precision": float(metrics.precision_score(truth, said)),
                "recall": float(metrics.recall_score(truth, said)),
                "specificity": float(metrics.recall_score(~truth, ~said)),
                "f1": float(metrics.f1_score(truth, said)),
                "accuracy": float(metrics.accuracy_score(truth, said)),
            })
    return cases


def several_annotators(random):
    import krippendorff
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    cases = []
    for items, annotators, categories, missing in [(10, 3, 3, 0), (50, 3, 4, 0), (30, 5, 7, 0), (50, 3, 3, 0.2), (20, 4, 5, 0.4)]:
        truth = random.integers(0, categories, items)
        labels = np.stack([
            np.where(random.random(items) < 0.6, truth, random.integers(0, categories, items)) for _ in range(annotators)
        ], axis=1).astype(float)
        labels[random.random(labels.shape) < missing] = np.nan
        case = {
            "labels": [[None if np.isnan(label) else label for label in row] for row in labels],
            "categories": categories,
            "alpha": {
                level: float(krippendorff.alpha(labels.T, level_of_measurement=level))
                for level in ["nominal", "ordinal", "interval"]
            },
            "fleiss": None,
        }
        if not missing:
            table, _ = aggregate_raters(labels.astype(int), n_cat=categories)
            case["fleiss"] = float(fleiss_kappa(table))
            case["table"] = table.astype(int).tolist()
        cases.append(case)
    return cases


def main():
    random = np.random.default_rng(20)
    case = {
        "correlations": correlations(random),
        "two": two_annotators(random),
        "several": several_annotators(random),
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
