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
STUDY = OUT.parent / "study"


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


def study(random):
    """Invented people, judges and metrics as files, and what the references make of them."""
    import krippendorff
    from scipy import stats
    from sklearn import metrics

    words = ["missing", "wrong", "right"]
    items = [f"picture_{i:03}" for i in range(60)]
    truth = random.choice(3, 60, p=[0.25, 0.4, 0.35])
    people = {
        name: np.where(random.random(60) < sure, truth, random.integers(0, 3, 60))
        for name, sure in [("anna", 0.9), ("ben", 0.8), ("cleo", 0.7)]
    }
    STUDY.mkdir(parents=True, exist_ok=True)
    for name, said in people.items():
        rows = [f"{item},{words[word]}" for item, word in zip(items, said)]
        (STUDY / f"{name}.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    pse = np.round(np.clip(truth / 2 * 0.7 + random.normal(0, 0.25, 60), 0, 1), 2)
    centre = (truth >= 1) & (random.random(60) < 0.8)
    lines = [
        json.dumps({"sample_id": item, "pse": float(p), "centre": bool(c)}) for item, p, c in zip(items, pse, centre)
    ]
    (STUDY / "scores.jsonl").write_text("\n".join(lines) + "\n")

    votes = np.stack(list(people.values()), axis=1)
    counts = np.stack([(votes == word).sum(axis=1) for word in range(3)], axis=1)
    agreed = counts.max(axis=1) >= 2
    # What more than half say is right: of three people there is always a majority of yes or no.
    right = (votes == 2).sum(axis=1) >= 2
    expected = {"divided": int((~agreed).sum()), "kappa": {}, "correlation": {}, "decisions": {}}
    names = list(people)
    for i, second in enumerate(names):
        for first in names[:i]:
            kappa = metrics.cohen_kappa_score(people[first], people[second], labels=[0, 1, 2])
            expected["kappa"][f"{first} {second}"] = float(kappa)
    expected["alpha"] = float(krippendorff.alpha(votes.T.astype(float), level_of_measurement="nominal"))
    for name, values, at in [("pse", pse, 0.5), ("centre", centre.astype(float), 0.5)]:
        expected["correlation"][name] = {
            "spearman": float(stats.spearmanr(right, values).statistic),
            "kendall": float(stats.kendalltau(right, values, variant="b").statistic),
            "pearson": float(stats.pearsonr(right.astype(float), values).statistic),
        }
        said = values >= at
        expected["decisions"][name] = {
            "precision": float(metrics.precision_score(right, said)),
            "recall": float(metrics.recall_score(right, said)),
            "accuracy": float(metrics.accuracy_score(right, said)),
            "specificity": float(metrics.recall_score(~right, ~said)),
            "F1": float(metrics.f1_score(right, said)),
        }
    models = ["plain", "tuned"]
    rows, by_model = [], {model: [] for model in models}
    for i in range(40):
        model = models[i % 2]
        rating = int(np.clip(round(random.normal(4 + i % 2, 1.3)), 1, 7))
        by_model[model].append(rating)
        rows.append(f"picture_{i:03},{model},{rating}")
    (STUDY / "ratings.csv").write_text("id,model,overall\n" + "\n".join(rows) + "\n")
    expected["ratings"] = {
        model: [float(np.mean(given)), float(np.std(given, ddof=1))] for model, given in by_model.items()
    }
    # Four models a picture: what people choose, and scores of which the highest would choose.
    choices, scores = [], []
    models, agree = ["sd15", "sd21", "sdxl", "ours"], 0
    for item in items[:30]:
        values = np.round(random.random(4), 3)
        best = int(values.argmax())
        chosen = best if random.random() < 0.6 else int(random.integers(0, 4))
        agree += chosen == best
        choices.append(f"{item},{models[chosen]}")
        scores += [f"{item},{model},{value}" for model, value in zip(models, values)]
    (STUDY / "choices.csv").write_text("id,choice\n" + "\n".join(choices) + "\n")
    (STUDY / "sgscores.csv").write_text("id,model,sgscore\n" + "\n".join(scores) + "\n")
    expected["choices"] = agree / 30
    (STUDY / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    random = np.random.default_rng(20)
    case = {
        "correlations": correlations(random),
        "two": two_annotators(random),
        "several": several_annotators(random),
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(case) + "\n")
    study(np.random.default_rng(21))


if __name__ == "__main__":
    main()
