from scalemix._text import text_table


def test_cells_of_a_column_stand_below_each_other():
    rows = [("", "share", "of"), ("age", "0.5", "3 units"), ("height", "10.25")]
    assert text_table(rows, "<>") == [
        "        share  of",
        "age       0.5  3 units",
        "height  10.25",
    ]
    assert text_table([]) == []
