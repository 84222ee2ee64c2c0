"""Runs the Python clients of other projects, unmodified, against mm serve.

Usage: python scripts/clients.py URL MODEL BUILD. A client that is not installed is skipped by name.
"""

import asyncio
import base64
import importlib
import json
import os
import struct
import sys
import time
import urllib.request
import zlib

URL, MODEL, BUILD = sys.argv[1], sys.argv[2], sys.argv[3]  # BUILD has a decoder of images
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_API_KEY="x", ANTHROPIC_API_KEY="x", OLLAMA_HOST=URL)
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"], "additionalProperties": False,
}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "weather of a city", "parameters": CITY}}
TOTAL = {"passed": 0, "failed": 0, "skipped": 0}


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(
        b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


def running():
    text = urllib.request.urlopen(URL + "/metrics").read().decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith("mm_requests_running ")))


def freed():
    for _ in range(100):
        if running() == 0:
            return
        time.sleep(0.05)
    raise AssertionError("the answer still runs")


def check(name, fn):
    try:
        fn()
        TOTAL["passed"] += 1
        print("ok   ", name)
    except Exception as e:
        TOTAL["failed"] += 1
        print("FAIL ", name, type(e).__name__, str(e)[:300])


def suite(package, fn):
    try:
        module = importlib.import_module(package)
    except ImportError:
        TOTAL["skipped"] += 1
        print("SKIP ", package, "is not installed")
        return
    fn(module)


def with_openai(openai):
    c = openai.OpenAI(base_url=URL + "/v1", max_retries=0)
    chat = c.chat.completions

    def choices():
        assert [c.index for c in chat.create(model=MODEL, messages=ASK, max_tokens=4, n=2).choices] == [0, 1]

    def images():
        r = c.images.generate(model=BUILD, prompt="a large red circle", n=2, size="auto")
        assert all(base64.b64decode(i.b64_json).startswith(b"\x89PNG") for i in r.data) and len(r.data) == 2

    def refused(kind):
        try:
            c.embeddings.create(model=MODEL, input="text")
        except kind as e:
            assert "encoder of text" in str(e)
        else:
            raise AssertionError("no error")

    def plain():
        r = chat.create(model=MODEL, messages=ASK, max_tokens=8)
        assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens and r.usage.completion_tokens <= 8
        assert r.choices[0].finish_reason in ("stop", "length")

    def stream():
        whole = chat.create(model=MODEL, messages=ASK, max_tokens=12).choices[0].message.content
        parts = list(chat.create(model=MODEL, messages=ASK, max_tokens=12, stream=True, stream_options={"include_usage": True}))
        assert parts[-1].usage.completion_tokens <= 12 and not parts[-1].choices
        assert "".join(p.choices[0].delta.content or "" for p in parts[:-1]) == whole

    def helper():
        form = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA, "strict": True}}
        with chat.stream(model=MODEL, messages=ASK, max_tokens=200, response_format=form) as s:
            s.until_done()
            assert s.get_final_completion().choices[0].finish_reason

    def tools(choice, streamed):
        def run():
            args = dict(model=MODEL, messages=ASK, tools=[TOOL], tool_choice=choice, max_tokens=60)
            if streamed:
                with chat.stream(**args) as s:
                    s.until_done()
                    r = s.get_final_completion()
            else:
                r = chat.create(**args)
            call = r.choices[0].message.tool_calls[0]
            assert r.choices[0].finish_reason == "tool_calls" and "city" in json.loads(call.function.arguments)
            after = ASK + [r.choices[0].message.model_dump(include={"role", "content", "tool_calls"}), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
            for one in after[1]["tool_calls"]:
                one.pop("index", None)
                one["function"].pop("parsed_arguments", None)
            chat.create(model=MODEL, messages=after, tools=[TOOL], max_tokens=8)
        return run

    def schema():
        r = chat.create(model=MODEL, messages=ASK, max_tokens=200, response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA, "strict": True}})
        v = json.loads(r.choices[0].message.content)
        assert set(v) == {"name", "age"} and isinstance(v["age"], int)

    def stop():
        whole = chat.create(model=MODEL, messages=ASK, max_tokens=16).choices[0].message.content
        word = whole[len(whole) // 2:][:2]
        r = chat.create(model=MODEL, messages=ASK, max_tokens=16, stop=[word])
        assert word not in r.choices[0].message.content and whole.startswith(r.choices[0].message.content)

    def seed():
        a, b = (chat.create(model=MODEL, messages=ASK, max_tokens=12, temperature=1, seed=7).choices[0].message.content for _ in range(2))
        assert a == b

    def logprobs():
        r = chat.create(model=MODEL, messages=ASK, max_tokens=4, logprobs=True, top_logprobs=3)
        got = r.choices[0].logprobs.content
        assert len(got) == r.usage.completion_tokens and all(t.logprob <= 0 and len(t.top_logprobs) == 3 for t in got)

    def text():
        assert c.completions.create(model=MODEL, prompt="Once upon a", max_tokens=6).usage.completion_tokens <= 6
        list(c.completions.create(model=MODEL, prompt="Once upon a", max_tokens=6, stream=True))

    def models():
        assert MODEL in [m.id for m in c.models.list().data] and c.models.retrieve(MODEL).id == MODEL

    def fails(kind, **args):
        def run():
            try:
                chat.create(**{"model": MODEL, "messages": ASK, "max_tokens": 4, **args})
            except kind as e:
                assert e.body and e.body["message"], e
                return
            raise AssertionError("no error")
        return run

    def picture():
        url = "data:image/png;base64," + base64.b64encode(png()).decode()
        try:
            chat.create(model=MODEL, max_tokens=4, messages=[{"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]}])
        except openai.BadRequestError as e:
            assert "image" in str(e)

    def cancel():
        s = chat.create(model=MODEL, messages=ASK, stream=True, max_tokens=2000, extra_body={"stop": None})
        next(iter(s))
        s.close()
        freed()

    def response():
        r = c.responses.create(model=MODEL, input="hi", max_output_tokens=6)
        assert r.output_text is not None and r.usage.output_tokens <= 6
        again = c.responses.create(model=MODEL, input="and?", previous_response_id=r.id, max_output_tokens=6)
        assert again.usage.input_tokens > r.usage.input_tokens

    def response_stream():
        with c.responses.stream(model=MODEL, input="hi", max_output_tokens=6) as s:
            kinds = [e.type for e in s]
            assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete")

    def response_tool():
        r = c.responses.create(model=MODEL, input="weather in Paris", max_output_tokens=60, tool_choice="required",
                               tools=[{"type": "function", "name": "get_weather", "parameters": CITY, "strict": False}])
        call = r.output[-1]
        assert call.type == "function_call" and "city" in json.loads(call.arguments)
        c.responses.create(model=MODEL, previous_response_id=r.id, max_output_tokens=4, input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])

    def response_schema():
        r = c.responses.create(model=MODEL, input="a person", max_output_tokens=200, text={"format": {"type": "json_schema", "name": "p", "schema": SCHEMA, "strict": True}})
        assert set(json.loads(r.output_text)) == {"name", "age"}

    def many():
        async def go():
            a = openai.AsyncOpenAI(base_url=URL + "/v1")
            async with a:
                rs = await asyncio.gather(*(a.chat.completions.create(model=MODEL, messages=ASK, max_tokens=8) for _ in range(8)))
            assert len({r.choices[0].message.content for r in rs}) == 1
        asyncio.run(go())

    named = {"type": "function", "function": {"name": "get_weather"}}
    for name, fn in {
        "plain": plain, "stream and usage": stream, "stream helper": helper, "tools required": tools("required", False), "tools named": tools(named, False),
        "tools streamed": tools("required", True), "json_schema": schema, "stop": stop, "seed": seed, "logprobs": logprobs, "completions": text, "models": models,
        "unknown model": fails(openai.NotFoundError, model="nope"), "bad temperature": fails(openai.BadRequestError, temperature=-3),
        "bad role": fails(openai.BadRequestError, messages=[{"role": "x", "content": "y"}]), "two choices": choices,
        "images": images, "embeddings refused": lambda: refused(openai.BadRequestError),
        "too long": fails(openai.BadRequestError, messages=[{"role": "user", "content": "a b " * 40000}]),
        "bad schema": fails(openai.BadRequestError, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nope"}}}),
        "image to any model": picture, "cancel": cancel, "responses": response, "responses stream": response_stream, "responses tool": response_tool,
        "responses json_schema": response_schema, "8 at once": many,
    }.items():
        check("openai " + name, fn)


def with_anthropic(anthropic):
    c = anthropic.Anthropic(base_url=URL, max_retries=0)
    tool = {"name": "get_weather", "input_schema": CITY}

    def plain():
        r = c.messages.create(model=MODEL, max_tokens=8, messages=ASK, system="Be brief.")
        assert r.content[0].type == "text" and r.usage.output_tokens <= 8

    def stream():
        with c.messages.stream(model=MODEL, max_tokens=8, messages=ASK) as s:
            text = "".join(s.text_stream)
            assert s.get_final_text() == text and s.get_final_message().usage.output_tokens <= 8

    def tools(streamed):
        def run():
            args = dict(model=MODEL, max_tokens=60, messages=ASK, tools=[tool], tool_choice={"type": "any"})
            if streamed:
                with c.messages.stream(**args) as s:
                    r = s.get_final_message()
            else:
                r = c.messages.create(**args)
            use = r.content[-1]
            assert r.stop_reason == "tool_use" and "city" in use.input
            after = ASK + [{"role": "assistant", "content": [use.model_dump(include={"type", "id", "name", "input"})]},
                           {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]}]
            c.messages.create(model=MODEL, max_tokens=4, messages=after, tools=[tool])
        return run

    def error():
        try:
            c.messages.create(model="nope", max_tokens=4, messages=ASK)
        except anthropic.NotFoundError as e:
            assert e.body["error"]["type"] == "not_found_error"
            return
        raise AssertionError("no error")

    def cancel():
        s = c.messages.create(model=MODEL, max_tokens=2000, messages=ASK, stream=True)
        next(iter(s))
        s.close()
        freed()

    for name, fn in {"plain": plain, "stream": stream, "tools": tools(False), "tools streamed": tools(True), "error": error, "cancel": cancel}.items():
        check("anthropic " + name, fn)


def with_ollama(ollama):
    c = ollama.Client(host=URL)

    def chat():
        r = c.chat(model=MODEL, messages=ASK, options={"num_predict": 6})
        whole = "".join(p.message.content for p in c.chat(model=MODEL, messages=ASK, options={"num_predict": 6}, stream=True))
        assert r.message.content == whole and r.eval_count <= 6

    def schema():
        assert set(json.loads(c.chat(model=MODEL, messages=ASK, format=SCHEMA).message.content)) == {"name", "age"}

    def tools():
        c.chat(model=MODEL, messages=ASK, tools=[TOOL], options={"num_predict": 8})

    def error():
        try:
            c.chat(model="nope", messages=ASK)
        except ollama.ResponseError as e:
            assert e.status_code == 404
            return
        raise AssertionError("no error")

    for name, fn in {
        "chat": chat, "generate": lambda: c.generate(model=MODEL, prompt="hi", options={"num_predict": 4}), "format": schema, "tools": tools,
        "list": lambda: c.list().models[0].model, "show": lambda: c.show(MODEL), "error": error,
    }.items():
        check("ollama " + name, fn)


def with_litellm(litellm):
    litellm.suppress_debug_info = True
    args = dict(model="openai/" + MODEL, api_base=URL + "/v1", api_key="x", messages=ASK)

    def tools():
        r = litellm.completion(**args, tools=[TOOL], tool_choice="required", max_tokens=60)
        assert json.loads(r.choices[0].message.tool_calls[0].function.arguments)["city"] is not None

    def error():
        try:
            litellm.completion(**args, temperature=-1)
        except litellm.exceptions.BadRequestError:
            return
        raise AssertionError("no error")

    for name, fn in {
        "plain": lambda: litellm.completion(**args, max_tokens=6).usage.total_tokens, "stream": lambda: list(litellm.completion(**args, max_tokens=6, stream=True)),
        "tools": tools, "error": error,
        "anthropic": lambda: litellm.completion(model="anthropic/" + MODEL, api_base=URL, api_key="x", messages=ASK, max_tokens=6).usage.total_tokens,
        "ollama": lambda: litellm.completion(model="ollama_chat/" + MODEL, api_base=URL, messages=ASK, max_tokens=6).usage.total_tokens,
    }.items():
        check("litellm " + name, fn)


def with_langchain(lc):
    from pydantic import BaseModel, Field

    class Person(BaseModel):
        name: str = Field(max_length=12)
        age: int = Field(ge=0, le=99)

    def get_weather(city: str) -> str:
        """Return the weather of a city."""
        return "sunny in " + city

    m = lc.ChatOpenAI(base_url=URL + "/v1", model=MODEL, max_tokens=80)

    def tools():
        assert m.bind_tools([get_weather], tool_choice="required").invoke("weather in Paris").tool_calls[0]["name"] == "get_weather"

    def structured():
        assert isinstance(m.with_structured_output(Person, method="json_schema").invoke("a person"), Person)

    for name, fn in {
        "invoke": lambda: m.invoke("hi").usage_metadata["total_tokens"], "stream": lambda: [p.content for p in m.stream("hi")], "tools": tools, "structured": structured,
        "batch": lambda: m.batch(["hi", "ho"]),
    }.items():
        check("langchain-openai " + name, fn)


def with_instructor(instructor):
    import openai
    from pydantic import BaseModel, Field

    class Person(BaseModel):
        name: str = Field(max_length=12)
        age: int = Field(ge=0, le=99)

    def extract(mode):
        def run():
            c = instructor.from_openai(openai.OpenAI(base_url=URL + "/v1"), mode=mode)
            p = c.chat.completions.create(model=MODEL, messages=ASK, response_model=Person, max_tokens=200, max_retries=0)
            assert 0 <= p.age <= 99
        return run

    check("instructor json_schema", extract(instructor.Mode.JSON_SCHEMA))
    check("instructor tools", extract(instructor.Mode.TOOLS))


def with_pydantic_ai(pydantic_ai):
    from pydantic import BaseModel, Field
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Person(BaseModel):
        name: str = Field(max_length=12)
        age: int = Field(ge=0, le=99)

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL + "/v1", api_key="x"))
    short = {"max_tokens": 120}

    def tools():
        agent = pydantic_ai.Agent(model, output_type=pydantic_ai.ToolOutput(Person), retries=3, model_settings=short)
        assert 0 <= agent.run_sync("a person").output.age <= 99

    def native():
        agent = pydantic_ai.Agent(model, output_type=pydantic_ai.NativeOutput(Person), retries=3, model_settings=short)
        assert 0 <= agent.run_sync("a person").output.age <= 99

    async def streamed():
        async with pydantic_ai.Agent(model, model_settings={"max_tokens": 8}).run_stream("hi") as r:
            return await r.get_output()

    check("pydantic-ai text", lambda: pydantic_ai.Agent(model, model_settings={"max_tokens": 8}).run_sync("hi").output)
    check("pydantic-ai stream", lambda: asyncio.run(streamed()))
    check("pydantic-ai output by a tool", tools)
    check("pydantic-ai output by a schema", native)


def with_mcp(mcp):
    async def talk():
        from mcp import Client
        async with Client(URL + "/mcp") as c:
            listed = await c.list_tools()
            assert any(t.name for t in listed.tools)
            return [t.name for t in listed.tools]

    check("mcp list tools", lambda: asyncio.run(talk()))


suite("openai", with_openai)
suite("anthropic", with_anthropic)
suite("ollama", with_ollama)
suite("litellm", with_litellm)
suite("langchain_openai", with_langchain)
suite("instructor", with_instructor)
suite("pydantic_ai", with_pydantic_ai)
suite("mcp", with_mcp)
print(json.dumps(TOTAL))
sys.exit(1 if TOTAL["failed"] else 0)
