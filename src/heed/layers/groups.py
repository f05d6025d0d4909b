"""Grouping the sequences of a ragged batch by length, to reduce padding."""


def length_groups(lengths: list[int]) -> list[list[int]]:
    """Group sequence indices, longest first; each length is more than half of the longest in its group."""
    groups: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not groups or 2 * lengths[row] <= longest:
            groups.append([])
            longest = lengths[row]
        groups[-1].append(row)
    return groups


def grouped_positions(lengths: list[int]) -> int:
    """Number of positions in these groups, each padded to its longest sequence."""
    return sum(len(group) * lengths[group[0]] for group in length_groups(lengths))
