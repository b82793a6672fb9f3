"""Lookups in tables, from TensorFlow to LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from tests.end_to_end.invokes import check_invokes
from tests.models import tables, text
from tests.models.sources import exported
from tests.slow import every_other, slow_but

WORDS = tf.TensorSpec((None,), tf.string, name="x")


def converted(function: Any, spec: Any = WORDS) -> jfuse.Model:
    return jfuse.convert(tf.function(function, input_signature=[spec], autograph=False))


@pytest.mark.parametrize("name", every_other(tables.TABLES))
def test_table(name: str) -> None:
    for verify, shape, open_shape in ((True, (5, 3), (None, 3)), (False, (4,), (4,)), (False, (2, 2), (None, None))):
        check_invokes(jfuse.convert(tables.lookup(name, *open_shape), verify=verify), tables.drawn(name, *shape))


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("strings_to_i64", {"hashtable_find": 1}),
        ("i64_to_strings", {"hashtable_find": 1}),
        ("strings_to_floats", {"hashtable_find": 1, "gather": 1}),
        ("dense", {"maximum": 1, "minimum": 1, "gather": 1}),
    ],
)
def test_lookups_take_few_operators(name: str, operators: dict[str, int]) -> None:
    assert jfuse.convert(tables.lookup(name, None), verify=False).report.operators == operators


def test_a_scalar() -> None:
    check_invokes(jfuse.convert(tables.lookup("dense")), tables.draw_of([1, 2, 5, 7]))


def test_tables_of_several_signatures_from_a_file(tmp_path: Path) -> None:
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("alpha\nbeta\ngröße\n")
    module = tables.FromFile(vocabulary)
    signatures = {"number": module.number, "known": module.known}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    lite = jfuse.convert(tmp_path / "model")
    check_invokes(lite, tables.draw_of(["alpha", "beta", "gamma", "größe", ""], 3))
    contents = lite.to_bytes().count("größe".encode())
    assert contents == 1, "both signatures look up in one table"


def test_tables_in_branches_and_loops() -> None:
    made, other = tables.table("strings_to_i64"), tables.table("strings_to_floats")

    def call(x: Any) -> Any:
        numbers = tf.cond(tf.reduce_sum(other.lookup(x)) > 3.0, lambda: made.lookup(x) * 2, lambda: made.lookup(x))
        step = lambda i, total: (i + 1, total + made.lookup(x))  # noqa: E731
        return tf.while_loop(lambda i, total: i < 3, step, (0, numbers))[1]

    check_invokes(converted(call), tables.drawn("strings_to_i64", 4))


def test_a_table_beside_a_variable() -> None:
    made, total = tables.table("strings_to_i64"), tf.Variable(tf.zeros([2], tf.int64), name="total")

    def call(x: Any) -> Any:
        return total.assign_add(made.lookup(x)) + 0

    check_invokes(converted(call, tf.TensorSpec((2,), tf.string, name="x")), tables.drawn("strings_to_i64", 2))


def test_one_place_for_what_is_out_of_the_vocabulary() -> None:
    words = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([0, 1], tf.int64))
    made = tf.lookup.StaticVocabularyTable(words, num_oov_buckets=1)
    check_invokes(converted(made.lookup), tables.draw_of(["a", "b", "c", "d"], 5))


def test_hashed_words_are_refused() -> None:
    words = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([0, 1], tf.int64))
    made = tf.lookup.StaticVocabularyTable(words, num_oov_buckets=3)
    with pytest.raises(LowerError, match=r"StringToHashBucketFast(.|\n)*hashes strings into 3 buckets"):
        converted(made.lookup)


def test_an_empty_table() -> None:
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 7)
    lite = converted(lambda x: (made.lookup(x), tf.equal(x, "a")))
    check_invokes(lite, tables.draw_of(["a", "b"], 3))


def test_a_table_that_nothing_writes_may_be_of_any_kind() -> None:
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    made.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    check_invokes(converted(made.lookup), tables.draw_of(["a", "b", "c"], 3))


def test_a_table_that_changes_is_refused() -> None:
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    def call(x: Any) -> Any:
        made.insert(x, tf.ones_like(made.lookup(x)))
        return made.lookup(x)

    with pytest.raises(LowerError, match=r"is changed by the function(.|\n)*StaticHashTable"):
        converted(call)


def static(x: Any) -> Any:
    filled = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2], value_dtype=tf.int64)
    return tf.lookup.StaticHashTable(filled, -1).lookup(x)


def mutable(x: Any) -> Any:
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    made.insert(["a", "b"], tf.constant([1, 2], tf.int64))
    made.insert(["b"], tf.constant([7], tf.int64))
    return made.lookup(x), made.size()


def by_nodes(x: Any) -> Any:
    made = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    tf.raw_ops.LookupTableImportV2(table_handle=made, keys=["a", "b"], values=tf.constant([1, 2], tf.int64))
    return tf.raw_ops.LookupTableFindV2(table_handle=made, keys=x, default_value=tf.constant(-1, tf.int64))


def in_a_branch(x: Any) -> Any:
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    tf.cond(tf.size(x) > 2, lambda: made.insert(["a"], tf.constant([1], tf.int64)), lambda: tf.no_op())
    return made.lookup(x)


def afterwards(x: Any) -> Any:
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    before = made.lookup(x)
    made.insert(["a"], tf.constant([1], tf.int64))
    return before, made.lookup(x)


@pytest.mark.parametrize("function", [static, mutable, by_nodes, tf.function(by_nodes)])
def test_a_table_that_the_function_makes(function: Any) -> None:
    check_invokes(converted(lambda x: function(x)), tables.draw_of(["a", "b", "c"], 3))


@pytest.mark.parametrize("function", [in_a_branch, afterwards])
def test_a_table_that_the_function_fills_too_late(function: Any) -> None:
    with pytest.raises(LowerError, match=r"is changed by the function(.|\n)*before it looks anything up"):
        converted(function)


def test_a_default_that_is_computed_is_refused() -> None:
    made = tables.table("dense")

    def call(x: Any) -> Any:
        return tf.raw_ops.LookupTableFindV2(
            table_handle=made.resource_handle, keys=x, default_value=tf.cast(x[0], tf.float32)
        )

    with pytest.raises(LowerError, match="the default of a table is computed at run time"):
        converted(call, tf.TensorSpec((None,), tf.int64, name="x"))


@pytest.mark.parametrize("name", slow_but({"ids", "words", "known_ids"}.__contains__, text.MODELS))
def test_text_model(name: str, tmp_path: Path) -> None:
    model = text.MODELS[name][0]()
    for verify, source in ((True, model), (False, exported(model, tmp_path / "model"))):
        check_invokes(jfuse.convert(source, verify=verify), text.drawn(name))


def test_splitting_text_is_refused() -> None:
    words = keras.layers.TextVectorization(vocabulary=text.WORDS, output_sequence_length=5)
    sentences = keras.Input((1,), dtype="string")
    with pytest.raises(LowerError, match=r"StringSplitV2(.|\n)*do text work before the model"):
        jfuse.convert(keras.Model(sentences, words(sentences)))


def test_texts_that_nothing_reads() -> None:
    """An identifier that stands beside the numbers, and one that is handed on."""
    specs = [tf.TensorSpec([None], tf.string, name="text"), tf.TensorSpec([None, 3], name="x")]
    unread = tf.function(lambda text, x: 2.0 * x, input_signature=specs, autograph=False)
    handed_on = tf.function(lambda text, x: {"text": text, "y": 2.0 * x}, input_signature=specs, autograph=False)
    for source in (unread, handed_on):
        lite = jfuse.convert(source)
        assert all(d.error <= d.tolerance for d in lite.report.differences)
        check_invokes(lite)
