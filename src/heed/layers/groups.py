"""Which sequences of a ragged batch are read together."""


def length_groups(lengths: list[int]) -> list[list[int]]:
    """Which sequences are read together: in a group each is longer than half the longest, so little is padding."""
    groups: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not groups or 2 * lengths[row] <= longest:
            groups.append([])
            longest = lengths[row]
        groups[-1].append(row)
    return groups


def grouped_positions(lengths: list[int]) -> int:
    """How many positions those groups have, each padded to its longest sequence."""
    return sum(len(group) * lengths[group[0]] for group in length_groups(lengths))
