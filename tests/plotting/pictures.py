from matplotlib.figure import Figure, SubFigure


def assert_nothing_is_cut_off(figure: Figure | SubFigure) -> None:
    """Everything that is drawn lies inside the figure."""
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    inside = figure.get_tightbbox()
    assert inside.x0 >= 0 and inside.y0 >= 0
    assert inside.x1 <= figure.get_figwidth() and inside.y1 <= figure.get_figheight()
