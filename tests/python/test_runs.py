"""Several runs and ranks in one store, what its rows say of themselves, and a store that grows (D6, B4, C2)."""
import os
import subprocess

import graphtap
import numpy as np
import pytest


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "store"
    subprocess.run([os.environ["GRAPHTAP_FIXTURE"], str(path), "runs"], check=True)
    return graphtap.open(path)


def test_d6_runs_say_what_they_are(store):
    first, second = store.runs
    assert (first.number, second.number) == (1, 2) and first.id != second.id
    assert (first.name, second.name, first.model) == ("rank 0", "rank 1", "tiny")
    assert second.ranks == (1, 0, 0, 0) and second.world == (2, 0, 0, 0)
    assert second.started_unix_ns >= first.started_unix_ns > 1_600_000_000_000_000_000
    hooks = first.hooks
    assert [hook.name for hook in hooks] == ["blocks.0.resid_pre", "blocks.1.resid_pre", "blocks.2.resid_pre",
                                             "final_logits"]
    assert (hooks[1].type, hooks[1].layer, hooks[1].dtype, hooks[1].row_shape) == ("resid_pre", 1, "bf16", (8,))
    assert hooks[3].layer is None and "final_logits" in repr(hooks[3])


def test_d6_totals_are_those_of_what_can_be_read(store):
    for run in store.runs:
        for total in run.totals():
            records = list(store.read(run=run.number, layer=total.hook.layer)) if total.hook.layer is not None else []
            assert total.rows == sum(record.rows for record in records)
            assert total.bytes == sum(record.numpy().nbytes for record in records)
            lost = run.number == 2 and total.hook.layer is not None
            assert (total.missing, total.shed, total.gaps) == (0, int(lost), {"shed_ring": 1} if lost else {})


def test_b4_ranks_choose_steps(store):
    assert {record.run for record in store.read(ranks=(1, None, None, None))} == {2}
    assert {record.ranks[0] for record in store.read(ranks=(None, 0, None, None))} == {0, 1}
    assert not list(store.read(ranks=(2, None, None, None))) and not list(store.read(ordinal=1))
    assert {gap.run for gap in store.gaps(ranks=(1, None, None, None), ordinal=0)} == {2}
    assert not list(store.gaps(ranks=(0, None, None, None)))


def test_c2_rows_say_that_they_were_recomputed_rejected_or_nobodys(store):
    records = list(store.read("resid_pre:0", run=1))
    told = [(r.request, r.first_token, r.rows, r.recomputed, r.speculative, r.rejected) for r in records]
    assert told == [("a", 0, 4, False, False, False), ("b", 0, 1, False, False, False),
                    (None, None, 1, False, False, False), ("a", 2, 2, True, False, False),
                    ("b", 1, 1, False, True, False), ("b", 2, 1, False, True, True)]
    assert not any(r.rejected for r in store.read("resid_pre:0", run=1, skip_rejected=True))
    a, b = (next(q for q in store.requests() if (q.run, q.id) == (1, name)) for name in "ab")
    gathered = a.gather("resid_pre:0")
    assert gathered.duplicates == 2 and gathered.mask.all()  # of a token computed twice the later row
    assert gathered.numpy()[2:].tobytes() == records[3].numpy().tobytes()
    assert gathered.numpy()[:2].tobytes() == records[0].numpy()[:2].tobytes()
    drafts = b.gather("resid_pre:0", tokens=(0, 3))
    assert drafts.rejected == 1 and drafts.mask.tolist() == [True, True, False]
    assert drafts.missing[0].why == "rejected"


def test_e_two_runs_with_one_request_must_be_told_apart(store):
    with pytest.raises(graphtap.InvalidArgumentError, match="run"):
        store.gather("resid_pre:0", request="a")
    assert store.gather("resid_pre:0", request="a", run=2).run == 2


def test_d6_a_reader_sees_what_another_process_writes(tmp_path):
    command = [os.environ["GRAPHTAP_FIXTURE"], str(tmp_path / "store"), "live"]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == "ok\n"
        store = graphtap.open(tmp_path / "store")
        for token in range(20):
            before = list(store.read("resid_pre:1"))
            writer.stdin.write("\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "ok\n"
            assert [r.first_token for r in store.read("resid_pre:1")] == list(range(token))
            store.refresh()
            rows = [r.numpy() for r in store.read("resid_pre:1")]
            assert len(rows) == token + 1
            assert all(np.shares_memory(old.numpy(), new) or old.numpy().tobytes() == new.tobytes()
                       for old, new in zip(before, rows))
        gathered = store.gather("resid_pre:1", request="a")
        assert gathered.shape == (20, 8) and gathered.mask.all()
        writer.stdin.close()
        assert writer.wait() == 0
        store.refresh()
        assert len(list(store.read("resid_pre:1"))) == 20
