"""A folder as new users have it after an hour: models, a decision and broken copies of it, rows, a journal, a registry.

It knows nothing of the commands that are run in it.
"""

import pickle
from pathlib import Path

from sklearn.linear_model import LogisticRegression

from tests.support import command_line, decision_folders, journal_folders, onnx_models, registry_homes, trained_models

PLAIN = decision_folders.PLAIN
FILES = {
    "notes.onnx": "this is a text\n",
    "cut.yaml": "decision: [fraud\nowner: ada\n",
    "overlap.yaml": PLAIN.replace('review: "< 0.97", reject: ">= 0.97"', 'review: "< 0.80", reject: ">= 0.70"'),
    "gap.yaml": PLAIN.replace('review: "< 0.97", reject: ">= 0.97"', 'review: "< 0.80", reject: ">= 0.90"'),
    "rule.yaml": PLAIN.replace("large && country", "large && contry"),
    "key.yaml": PLAIN.replace("transforms:", "transform:"),
    "unfitted.yaml": PLAIN.replace("mean: 3.0, scale: 1.5", "").replace("{of: amount, }", "amount")
    + "fitted: plain.fitted.json\n",
    "name.yaml": PLAIN.replace("decision: plain", "decision: my decision"),
    "modelless.yaml": PLAIN.replace("path: plain.onnx", "path: plan.onnx"),
    "j": "a file\n",
    "rows.csv": "card_id,amount,currency,country\nc-1,12.5,EUR,DE\n",
    "wrong.csv": "card,total,currency,country\nc-1,12.5,EUR,DE\n",
    "row.json": '{"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE"}',
    "cut.json": '{"amount": 12.5,',
    "notes.txt": "nothing to see\n",
}


def make(path: Path) -> Path:
    """Fill the folder; its registry has fraud@1, which is signed, and fraud@2, which is not."""
    decision_folders.plain(path)
    for name, text in FILES.items():
        (path / name).write_text(text)
    (path / "models").mkdir()
    for seed, name in enumerate(("fraud", "credit", "models/fraud")):
        onnx_models.linear(path, name, seed=seed)
    (path / "cut.onnx").write_bytes((path / "fraud.onnx").read_bytes()[:100])
    journal_folders.filled(path / "journal", [3])
    frame = trained_models.payments(200)
    trained_models.saved(frame, path / "payments.csv")
    fitted = LogisticRegression(max_iter=1000).fit(frame[["amount", "card age"]], frame["fraud"])
    (path / "risk.pkl").write_bytes(pickle.dumps(fitted))
    house = registry_homes.make(path)
    for words in ("register fraud fraud.onnx", "sign fraud@1 --key ada.pem", "register fraud models/fraud.onnx"):
        ending = command_line.flyball(*words.split(), "--by", "ada", "--registry", house.home, cwd=path)
        assert ending.code == 0, ending.text
    return path
