from graphut.topology import Star, Virtual, parse, statistics


def test_last_with_self_loops_connects_only_the_question() -> None:
    question = parse("window:0|last")
    assert question.mask(3).int().tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 1]]
    assert question.layout([3, 1, 2]).in_degrees.tolist() == [1, 1, 3, 1, 1, 2]


def test_star_and_virtual_connect_all_tokens_in_two_steps() -> None:
    for topology in (Star(), Virtual(1)):
        found = statistics(topology, 30)
        assert (found.diameter, found.unreachable) == (2, None)
