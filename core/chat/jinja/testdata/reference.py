# Renders templates with Jinja, set up as Hugging Face's apply_chat_template
# sets it up.
#
#   python reference.py < requests > answers
#
# A request is one line of JSON: {"template": ..., "vars": {...}}; an answer is
# {"text": ...} or {"error": ...}.
import functools
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import SandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=lineno)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.filters["from_json"] = json.loads  # llama.cpp's
env.globals["raise_exception"] = raise_exception

compiled = functools.lru_cache(maxsize=1)(env.from_string)

if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        try:
            text = compiled(request["template"]).render(**request["vars"])
            answer = {"text": text}
        except Exception as e:
            answer = {"error": type(e).__name__ + ": " + str(e)}
        print(json.dumps(answer), flush=True)
