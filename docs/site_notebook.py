"""The notebook as a page of the documentation site: it is run when the site is built, and the page has its output."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("from-a-notebook.ipynb")
SECONDS_PER_CELL = 300
_STYLE = re.compile(r"<style scoped>.*?</style>", re.DOTALL)
_BLANK_LINES = re.compile(r"\n\s*\n")


def describe_notebook() -> str:
    """Run the notebook, and return its cells and their output as Markdown. A cell that fails is an error."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # Other users of the machine could connect to a port, but not to sockets in a private directory.
    with TemporaryDirectory() as folder:
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")
        NotebookClient(notebook, km=manager, timeout=SECONDS_PER_CELL).execute()
    return "\n\n".join(map(_cell_text, notebook.cells)) + "\n"


def _cell_text(cell: nbformat.NotebookNode) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    outputs = [output for output in cell.outputs if output.get("data") or output.get("text", "").strip()]
    return "\n\n".join([f"```python\n{cell.source}\n```", *map(_output_text, outputs)])


def _output_text(output: nbformat.NotebookNode) -> str:
    """Return an output in the first of these forms that it has: an image, HTML, text."""
    data = output.get("data", {})
    if "image/png" in data:
        content = (
            f'<img alt="The figure that the cell above draws" src="data:image/png;base64,{data["image/png"].strip()}">'
        )
    elif "text/html" in data:
        content = _BLANK_LINES.sub("\n", _STYLE.sub("", data["text/html"]))
    else:
        return f"```text\n{output.get('text') or data.get('text/plain', '')}\n```"
    return f'<div class="notebook-output" tabindex="0" role="region" aria-label="Output">\n{content}\n</div>'
