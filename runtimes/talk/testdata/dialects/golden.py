"""Writes golden.json: what transformers renders of the templates in this folder.

    python golden.py          (transformers 5.23.0)

Each template is rendered with one conversation: a question, calls, their results. For
templates without tools, calls or results, the turns are those in which mm writes them
as text, spelled out here.
"""

import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

here = pathlib.Path(__file__).parent
tools = [
    {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}}},
    {"type": "function", "function": {"name": "echo", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}},
]
calls = [("add", {"a": 12, "b": 7}), ("echo", {"text": "a <b> \"c\" ]}, d"})]
results = ['{"ok":true,"result":19}', '{"ok":true,"result":"a"}']


def native(n, ids=False):
    """Returns the turns for a template that renders calls and results."""
    listed = [{"id": f"call{i + 1:05d}", "type": "function", "function": {"name": k, "arguments": v}} for i, (k, v) in enumerate(calls[:n])]
    turns = [{"role": "assistant", "content": "", "tool_calls": listed}]
    for i, (k, _) in enumerate(calls[:n]):
        turns.append({"role": "tool", "name": k, "tool_call_id": f"call{i + 1:05d}", "content": results[i]})
    return turns


def told(open_, close, around):
    """Returns the description of the tools."""
    text = "You can call these tools:\n"
    for t in tools:
        text += json.dumps(t, separators=(",", ":")) + "\n"
    call = '{"name": "NAME", "arguments": {"ARGUMENT": VALUE}}'
    text += "The result of a call is in the next turn. Call a tool only if the answer needs it.\n"
    return text + f"To call a tool, write\n{open_}{around}{call}{around}{close}"


def text(n, open_="<tool_call>", close="</tool_call>", around="\n"):
    """Returns the turns for a template of texts only."""
    blocks = [open_ + around + json.dumps({"name": k, "arguments": v}) + around + close for k, v in calls[:n]]
    answers = ["<tool_response>\n" + r + "\n</tool_response>" for r in results[:n]]
    return [{"role": "assistant", "content": "\n".join(blocks)}, {"role": "user", "content": "\n".join(answers)}]


ask = {"role": "user", "content": "What is 12+7?"}
system = [{"role": "system", "content": told("<tool_call>", "</tool_call>", "\n")}]
phi = [{"role": "system", "content": "", "tools": "[" + ", ".join(json.dumps(t, separators=(",", ":")) for t in tools) + "]"}]
cases = {
    "llama3": (1, True, [], native(1)),
    "mistral": (2, True, [], native(2)),
    "named": (2, True, [], native(2)),
    "granite": (2, True, [], native(2)),
    "hermes": (2, True, [], native(2)),
    "phi4": (2, False, phi, text(2, "<|tool_call|>", "<|/tool_call|>", "")),
    "gemma3": (2, False, system, text(2)),
    "smollm2": (2, False, system, text(2)),
}
out = {}
for name, (n, takes, before, turns) in cases.items():
    template = (here / f"{name}.jinja").read_text()
    rendered, _ = render_jinja_template(
        conversations=[before + [ask] + turns], tools=tools if takes else None, chat_template=template, add_generation_prompt=True, bos_token="<bos>", eos_token="<eos>")
    out[name] = {"calls": n, "text": rendered[0]}
(here / "golden.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
