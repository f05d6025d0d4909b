"""Word alignments in files: what is read, what is refused, links as spans of characters and as rows over tokens."""

import gzip

import pytest
import torch
from torch.testing import assert_close

from heed.config import TokenizerConfig
from heed.data.examples import Link, Pair
from heed.data.findings import Findings
from heed.data.kinds.pairs import OUT_OF_RANGE, WordLink, checked, linked, read_links, word_spans, written_links
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.tasks.inputs.supervision import rows_of

SOURCE, TARGET = "Main ghar ja raha hoon", "I am going home"
PAIR = Pair(SOURCE, TARGET, origin="my.hi:4")


def write(tmp_path, text, name="my.links"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_each_line_is_an_entry_and_blank_ones_stay(tmp_path):
    path = write(tmp_path, "0-0 4-1\n\n2p2\t3p2 1-3\n \n")
    assert read_links(path) == [
        [WordLink(0, 0), WordLink(4, 1)],
        [],
        [WordLink(2, 2, False), WordLink(3, 2, False), WordLink(1, 3)],
        [],
    ]


def test_packed_files_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "my.links.gz"
    path.write_bytes(gzip.compress(b"0-0\r\n\r\n1-1\r\n"))
    assert read_links(path) == [[(0, 0, True)], [], [(1, 1, True)]]


def test_a_link_that_stands_there_twice_is_one_and_sure_if_once_sure(tmp_path):
    assert read_links(write(tmp_path, "0-0 0-0 1p1 1-1 2-2 2p2\n")) == [[(0, 0, True), (1, 1, True), (2, 2, True)]]


@pytest.mark.parametrize(
    "written", ["3", "3-", "a-b", "0-0,1-1", "1--2", "-1-2", "1-2-3", "1:2", "\u0663-1", "1-2:0.5"]
)
def test_anything_else_is_named_with_file_line_and_value(tmp_path, written):
    path = write(tmp_path, f"0-0\n\n1-1 {written}\n")
    with pytest.raises(DataError) as error:
        read_links(path)
    assert str(error.value).startswith(f"'{path}' line 3 contains {written!r}, expected links between words, separated")


def test_bad_lines_may_be_left_out_and_stay_as_lines(tmp_path):
    findings = Findings("skip")
    assert read_links(write(tmp_path, "0-0\nx\n1-1\n"), findings=findings) == [[(0, 0, True)], [], [(1, 1, True)]]
    assert [(found.what, found.count, found.places) for found in findings.found] == [("not a link, left out", 1, ["2"])]


def test_links_are_written_as_they_are_read(tmp_path):
    links = [WordLink(0, 0), WordLink(2, 1, False)]
    assert written_links(links) == "0-0 2p1"
    assert read_links(write(tmp_path, written_links(links) + "\n")) == [links]


def test_words_are_what_blanks_separate_marks_included():
    assert word_spans(" Don't,\tplease go! ") == [(1, 7), (8, 14), (15, 18)]
    assert word_spans("") == []


def test_links_become_spans_of_characters():
    pair = linked(PAIR, [WordLink(4, 1), WordLink(2, 2), WordLink(3, 2)])
    said = [(pair.target[slice(*link.target)], pair.source[slice(*link.source)]) for link in pair.links]
    assert said == [("am", "hoon"), ("going", "ja"), ("going", "raha")]
    assert linked(PAIR, []).links == () and (pair.source, pair.origin) == (PAIR.source, PAIR.origin)
    assert isinstance(pair.links[0], Link)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (WordLink(5, 0), r"'my.links' line 4: link 5-0 names source word 5, but the source \(my.hi:4\) has 5 words, "
         r"counted from 0: 'Main ghar ja raha hoon'; if the file counts words from 1, subtract 1 from every"),
        (WordLink(0, 7), r"link 0-7 names target word 7, but the target \(my.hi:4\) has 4 words, counted from 0: "
         r"'I am going home'; data.bad_lines=skip"),
    ],
)  # fmt: skip
def test_a_link_out_of_range_is_named(link, message):
    with pytest.raises(DataError, match=message):
        checked([WordLink(0, 0), link], PAIR, "my.links", 4, Findings())


def test_links_out_of_range_may_be_left_out_and_counted():
    findings = Findings("skip")
    links = [WordLink(0, 0), WordLink(5, 0), WordLink(1, 3), WordLink(9, 9)]
    assert checked(links, PAIR, "my.links", 4, findings) == [WordLink(0, 0), WordLink(1, 3)]
    (found,) = findings.found
    assert (found.what, found.where, found.count) == (f"{OUT_OF_RANGE}, left out", "my.links", 2)
    assert checked([WordLink(0, 0)], Pair("", "a"), "my.links", 1, findings) == []


# --- links as rows of attention weights


LINKS = [WordLink(0, 0), WordLink(4, 1), WordLink(2, 2), WordLink(3, 2), WordLink(1, 3)]
LINKED = linked(Pair(SOURCE, TARGET), LINKS)
BY_WORD = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.5, 0.5, 0], [0, 1, 0, 0, 0]])


def rows_with(pair):
    tokenizer = TextTokenizer.train([pair.source, pair.target], TokenizerConfig(kind="word", min_count=1))
    return rows_of(pair.links, tokenizer.encode(pair.source).spans, tokenizer.encode(pair.target).spans)


def test_words_look_where_they_are_linked():
    assert_close(rows_with(LINKED), BY_WORD)


def test_a_token_without_a_link_has_a_row_of_zeros():
    rows = rows_with(linked(Pair(SOURCE, TARGET), [WordLink(1, 3)]))
    assert_close(rows[:3], torch.zeros(3, 5))
    assert_close(rows[3], BY_WORD[3])


def test_a_link_to_text_that_no_token_holds_says_nothing():
    pair = Pair("a b", "c", links=(Link((0, 1), (2, 3)), Link((0, 1), (0, 1))))
    assert_close(rows_of(pair.links, [(0, 1)], [(0, 1)]), torch.ones(1, 1))
    assert_close(rows_of(pair.links[:1], [(0, 1)], [(0, 1)]), torch.zeros(1, 1))


def test_texts_without_tokens():
    spans = [(0, 1), (2, 3)]
    for sources, targets in ((0, 2), (2, 0), (0, 0)):
        assert rows_of(LINKED.links, spans[:sources], spans[:targets]).shape == (targets, sources)
    assert_close(rows_of((), spans, spans), torch.zeros(2, 2))
