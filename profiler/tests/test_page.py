"""The page of compiled training is made from its rows alone."""

from rematplan.page import Row, methods, page, read, write


def rows():
    return [
        Row("mlp", "torch.compile", "", 100_000_000, 10, 10),
        Row("mlp", "checkpoint-blocks", "compiled", 60_000_000, 15, 10),
        Row("mlp", "compile-budget-ilp", "0.5", error="ModuleNotFoundError: no scipy | none"),
        Row("mlp", "rematplan", "60%", 59_000_000, 12, 10, 60_000_000, 58_000_000, 0.1),
        Row("mlp", "rematplan", "50%", 60_500_000, 12, 10, 50_000_000, 49_000_000, 0.1),
    ]


def test_rows_come_back_from_the_file_as_they_were(tmp_path):
    write(tmp_path / "compiled.csv", rows())
    assert read(tmp_path / "compiled.csv") == rows()
    assert read(tmp_path / "nothing.csv") == []


def test_the_page_says_what_is_over_its_budget_and_how_ours_compares():
    text = page(rows(), "a CPU")
    assert "| rematplan | 60% | 60.0 | 58.0 | 59.0 | 1.20 | 0e+00 |" in text
    assert "| 60.5 (over) |" in text
    assert "no scipy \\| none" in text
    assert "Within the budget: 1 of 2 of ours. The lowest peak of theirs is 60.0 MB; ours reach 59.0 MB." in text
    assert "ours take 0.80 of the best of theirs (median of 1, 0.80 to 0.80)" in text


def test_every_method_is_asked_for_once_and_the_reference_early():
    asked = list(methods())
    assert len(set(asked)) == len(asked)
    assert asked[:2] == [("eager", ""), ("torch.compile", "")]
