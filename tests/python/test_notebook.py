"""The notebook runs from top to bottom on real states of SmolLM2, and what it says is true (D6, B4's labels).

GRAPHTAP_COMMAND is the built command with the llama.cpp engine, GRAPHTAP_MODEL the GGUF file; without them it is skipped.
"""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/notebooks/smollm2.ipynb"
PROMPTS = ["The capital of France is", "Once upon a time, there was a little girl named", "Water is made of hydrogen and"]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the notebook's variables were at its end."""
    command, model = os.environ.get("GRAPHTAP_COMMAND"), os.environ.get("GRAPHTAP_MODEL")
    if not command or not model:
        pytest.skip("needs GRAPHTAP_COMMAND and GRAPHTAP_MODEL")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    work = tmp_path_factory.mktemp("notebook")
    prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    subprocess.run([command, "run", "--model", model, *prompts, "--max-tokens", "24", "--quiet", "--store", work / "store",
                    "--hooks", "resid_pre,resid_final,final_logits,token_ids"], check=True, stdout=subprocess.DEVNULL)
    notebook = nbformat.read(NOTEBOOK, 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    names = "layers", "change", "most", "sink", "norms", "similarity", "known", "agreement", "chosen"
    dump = "np.savez(os.environ['GRAPHTAP_NOTEBOOK_DUMP'], " + ", ".join(f"{name}={name}" for name in names) + ")"
    notebook.cells.append(nbformat.v4.new_code_cell(dump))
    os.environ.update(GRAPHTAP_NOTEBOOK_STORE=str(work / "store"), GRAPHTAP_NOTEBOOK_MODEL=model,
                      GRAPHTAP_NOTEBOOK_DUMP=str(work / "dump.npz"), MPLBACKEND="module://matplotlib_inline.backend_inline")
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    import numpy as np

    pictures = [output for cell in notebook.cells for output in cell.get("outputs", [])
                if "image/png" in output.get("data", {})]
    return dict(np.load(work / "dump.npz")), pictures


def test_d6_the_logit_lens_of_the_last_layer_is_what_the_model_says(said):
    values, _ = said
    assert values["layers"] == 30
    assert values["agreement"] >= 0.97  # a state of another layer, token or request would not be
    assert values["chosen"].min() == 1.0  # greedy: the next token is the largest of its own logits
    assert values["known"][-1] == values["agreement"] and values["known"][0] < 0.2
    assert values["known"][-4] > values["known"][10]


def test_d6_the_ends_change_the_stream_most_and_the_middle_least(said):
    values, _ = said
    change, similarity = values["change"], values["similarity"]
    assert values["most"][0] == 0 and change[0] > 3 * change[10:20].max()
    assert similarity.argmin() == 0 and similarity[10:20].min() > 0.9
    assert (values["sink"] / values["norms"].mean(axis=1)).max() > 50  # the first token's norm: the attention sink


def test_d6_it_draws_its_plots(said):
    _, pictures = said
    assert len(pictures) == 3 and all(len(picture["data"]["image/png"]) > 5000 for picture in pictures)
