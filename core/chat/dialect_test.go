package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
)

func TestDetect(t *testing.T) {
	abiTokens := []string{abi.ToolCallOpen, abi.ToolCallClose}
	for _, c := range []struct {
		name, template  string
		router, special []string
		label, fault    string
	}{
		{"MM-ABI", "", abiTokens, abiTokens, "mm-abi", ""},
		{"no router", "", nil, abiTokens, "mm-abi", ""},
		{"a router's own tokens", "", []string{"<a>", "</a>"}, []string{"<a>", "</a>"}, "mm-abi", ""},
		{"Hermes with tokens", "<tool_response>", abiTokens, abiTokens, "hermes", ""},
		{"Qwen3-Coder", "<tool_response> <function=", abiTokens, abiTokens, "qwen3-coder", ""},
		{"half of the tokens", "", abiTokens, abiTokens[:1], "text", ""},
		{"Hermes in text", "<tool_call> <tool_response>", abiTokens, nil, "hermes", ""},
		{"Mistral", "[TOOL_CALLS]", abiTokens, []string{"[TOOL_CALLS]"}, "mistral", ""},
		{"Mistral without the token", "[TOOL_CALLS]", abiTokens, nil, "text", ""},
		{"Mistral's names", "[TOOL_CALLS] [ARGS]", abiTokens, []string{"[TOOL_CALLS]", "[ARGS]"}, "mistral-named", ""},
		{"Mistral's names without the token", "[TOOL_CALLS] [ARGS]", abiTokens, []string{"[TOOL_CALLS]"}, "", "NAME[ARGS], and the vocabulary has no such token"},
		{"harmony", "<|channel|>", abiTokens, harmonyTokens, "harmony", ""},
		{"harmony without the token that ends a call", "<|channel|>", abiTokens, harmonyTokens[:4], "", "no token <|call|>"},
		{"Phi", "", abiTokens, []string{"<|tool_call|>", "<|/tool_call|>"}, "phi4", ""},
		{"Granite", "<|tool_call|>", abiTokens, []string{"<|tool_call|>"}, "granite", ""},
		{"Llama", `ipython "parameters"`, abiTokens, nil, "llama3", ""},
		{"Llama with the tag", "ipython <|python_tag|>", abiTokens, nil, "llama3", ""},
		{"Llama 3.0", "<|eot_id|>", abiTokens, nil, "text", ""},
	} {
		d, err := Detect(c.template, c.router, func(s string) bool { return slices.Contains(c.special, s) })
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || d.Label != c.label || d.Guided != (c.label != "mm-abi" && c.label != "harmony" && c.label != "qwen3-coder" && !slices.Equal(c.special, abiTokens)) {
			t.Errorf("%s: got %+v, %v", c.name, d, err)
		}
	}
}

// streams are texts of a model, each with its text and its calls.
var streams = []struct {
	d     Dialect
	text  string
	want  string
	calls []string
}{
	{Text(), "a<b <tool_call>\n" + `{"name": "add", "arguments": {"a": "}</tool_call>\"\\"}}` + "\n</tool_call>\n<tool_call>" + `{"name":"echo"}` + "</tool_call> so <tool_", "a<b  so <tool_", []string{`add {"a":"}</tool_call>\"\\"}`, "echo {}"}},
	{Text(), "<tool_call>x</tool_call>", "", []string{"fault"}},
	{Text(), "<tool_call>" + `{"name":"add"}` + "} </tool_call>y", "y", []string{"fault"}},
	{Text(), "<tool_call>" + `[{"name":"add"},{"name":"echo","arguments":{}}]` + "</tool_call>", "", []string{"add {}", "echo {}"}},
	{Text(), "<tool_call><function=add>\n<parameter=text>\na </b>\n</parameter>\n<parameter=n>\n[1, 2]\n</parameter>\n</function></tool_call>", "", []string{`add {"n":[1,2],"text":"a </b>"}`}},
	{MistralNamed(), `so [TOOL_CALLS]add[ARGS]{"a": "}[ARGS]\"\\"}[TOOL_CALLS]echo[CALL_ID]a1[ARGS] {} tail`, "so  tail", []string{`add {"a":"}[ARGS]\"\\"}`, "echo {}"}},
	{MistralNamed(), `[TOOL_CALLS]add{}`, "", []string{"fault"}},
	{MistralNamed(), `[TOOL_CALLS]add[ARGS]x{}`, "", []string{"fault"}},
	{Llama(), "\n {\"name\" : \"add\",\n \"parameters\": {\"a\": [\"{\"]}} tail", "\n  tail", []string{`add {"a":["{"]}`}},
	{Llama(), `{"type": "function", "name": "echo", "parameters": {}}`, "", []string{"echo {}"}},
	{Llama(), `{"name": "adds", "parameters": {}}`, `{"name": "adds", "parameters": {}}`, nil},
	{Llama(), `{"name": "add", "parameters": [1]}`, `{"name": "add", "parameters": [1]}`, nil},
	{Llama(), `{"age": 3}`, `{"age": 3}`, nil},
	{Llama(), `x {"name": "add", "parameters": {}}`, `x {"name": "add", "parameters": {}}`, nil},
	{Llama(), `{"type"`, `{"type"`, nil},
}

var toolNames = []string{"add", "echo", `q"uote`}

// collect formats the results of a finder.
func collect(out []Found) (text string, calls []string) {
	for _, f := range out {
		switch {
		case f.Call == nil:
			text += f.Text
		case f.Call.Fault != "":
			calls = append(calls, "fault")
		default:
			calls = append(calls, f.Call.Name+" "+string(f.Call.Arguments))
		}
	}
	return text, calls
}

// TestSplits: a text has the same calls wherever its pieces are divided: at one or two
// places, and into single bytes.
func TestSplits(t *testing.T) {
	for _, s := range streams {
		check := func(pieces ...string) {
			t.Helper()
			f := NewFinder(s.d, s.d.Form == Bare, false, toolNames)
			var out []Found
			for _, p := range pieces {
				out = append(out, f.Add(p)...)
			}
			out = append(out, f.Flush()...)
			text, calls := collect(out)
			if d := cmp.Diff(s.calls, calls); d != "" || text != s.want {
				t.Fatalf("%q: text %q, want %q (-want +got)\n%s", pieces, text, s.want, d)
			}
		}
		check(s.text)
		check(strings.Split(s.text, "")...)
		for i := range len(s.text) + 1 {
			for j := i; j <= len(s.text); j++ {
				check(s.text[:i], s.text[i:j], s.text[j:])
			}
		}
	}
}

// TestMarkerTokens: a marker that is a token is opened and closed by Begin and End alone.
func TestMarkerTokens(t *testing.T) {
	f := NewFinder(Phi(), true, true, toolNames)
	out := f.Add(`<|tool_call|>{"name":"add"}`)
	out = append(out, f.End()...) // no call is open
	out = append(out, f.Begin()...)
	out = append(out, f.Begin()...) // one is open
	out = append(out, f.Add(`{"name":"add","arguments":{"a":"<|/tool_call|>"}}`)...)
	if !f.Within() {
		t.Error("the call ended by its text")
	}
	out = append(out, f.End()...)
	text, calls := collect(append(out, f.Flush()...))
	if want := []string{`add {"a":"<|/tool_call|>"}`}; !slices.Equal(calls, want) || text != `<|tool_call|>{"name":"add"}` {
		t.Errorf("%q, %q", text, calls)
	}
	f = NewFinder(Mistral(), true, false, toolNames)
	out = append(f.Begin(), f.Add(`[{"name":"add"}, {"name":"echo","id":"a1"}] so`)...)
	text, calls = collect(append(out, f.Flush()...))
	if want := []string{"add {}", "echo {}"}; !slices.Equal(calls, want) || text != " so" {
		t.Errorf("%q, %q", text, calls)
	}
}

// TestLimits: a block over the limit is a fault, one without a marker text; so is an
// opening over its limit.
func TestLimits(t *testing.T) {
	long := func(n int) string {
		const around = len(`{"name":"add","arguments":{"a":""}}`)
		return `{"name":"add","arguments":{"a":"` + strings.Repeat("x", n-around) + `"}}`
	}
	for n, want := range map[int]string{abi.MaxToolCall: "add", abi.MaxToolCall + 1: "fault"} {
		f := NewFinder(Text(), false, false, toolNames)
		text, calls := collect(append(f.Add("<tool_call>"+long(n)+"</tool_call>"), f.Flush()...))
		if len(calls) != 1 || !strings.HasPrefix(calls[0], want) || strings.Contains(text, "name") {
			t.Errorf("%d bytes: %.40q, %.40q", n, calls, text)
		}
		text, calls = collect(func() []Found {
			f := NewFinder(Llama(), true, false, toolNames)
			return append(f.Add(long(n)), f.Flush()...)
		}())
		if want == "add" && (len(calls) != 1 || text != "") || want == "fault" && (calls != nil || text != long(n)) {
			t.Errorf("%d bytes without a marker: %.40q, %d bytes of text", n, calls, len(text))
		}
	}
	for n, want := range map[int]answer{maxOpening: yes, maxOpening + 1: no} {
		if got := opens(strings.Repeat(" ", n-len(`{"name":"add"`))+`{"name":"add"`, toolNames); got != want {
			t.Errorf("an opening of %d bytes: got %v, want %v", n, got, want)
		}
	}
	for n, fault := range map[int]bool{maxCalls: false, maxCalls + 1: true} {
		if _, err := ParseCalls("[" + strings.Repeat(`{"name":"a"},`, n-1) + `{"name":"a"}]`); (err != nil) != fault {
			t.Errorf("%d calls: %v", n, err)
		}
	}
	_, calls := collect(nil)
	f := NewFinder(Text(), false, false, nil)
	for _, part := range append(f.Add("<tool_call>"+strings.Repeat("x", 2*maxBlock)), f.Flush()...) {
		if part.Call != nil && len(part.Call.Block) != maxBlock {
			t.Errorf("%d bytes of a malformed call are kept, want %d", len(part.Call.Block), maxBlock)
		}
	}
	if calls != nil {
		t.Error(calls)
	}
}

func TestParse(t *testing.T) {
	for block, want := range map[string]string{
		`{"name":"a","parameters":{"x": 1}}`:          `a {"x":1}`,
		`{"type":"function","name":"a"}`:              "a {}",
		`{"type":"other","name":"a"}`:                 "unknown key",
		`{"name":"a","arguments":{},"parameters":{}}`: "unknown key",
		`[{"name":"a","id":7}]`:                       "id is not a string",
		`[]`:                                          "got 0 calls",
		`a[ARGS]{"x": 1}`:                             `a {"x":1}`,
		"a[CALL_ID]b[ARGS]{}":                         "a {}",
		"a[ARGS]":                                     "not a JSON object",
		"a[ARGS]{":                                    "incomplete JSON",
		"a[ARGS]{}{}":                                 "trailing data",
		"a[ARGS][ARGS]{}":                             "not a JSON object",
		"[ARGS]{}":                                    "missing tool name",
		"[CALL_ID]a[ARGS]{}":                          "missing tool name",
		`{"name":"a","arguments":{"x":"[ARGS]{}"}}`:                                   `a {"x":"[ARGS]{}"}`,
		`[{"name":"a"}] x`:                                                            "trailing data",
		`[{"name":"a"},7]`:                                                            "not a JSON object",
		`[{"name":"a","arguments":{"x":"<"}}]`:                                        `a {"x":"<"}`,
		"<function=a>\n</function>":                                                   "a {}",
		"<function=a><parameter=x>\nq\nr\n</parameter></function>":                    `a {"x":"q\nr"}`,
		"<function=a><parameter=x>\"q\"</parameter></function>":                       `a {"x":"\"q\""}`,
		"<function=a><parameter=x>{ \"k\": 1 }</parameter></function>":                `a {"x":{"k":1}}`,
		"<function=>\n</function>":                                                    "missing tool name",
		"<function=a>\n</function> x":                                                 "trailing data",
		"<function=a><parameter=x>1":                                                  "malformed parameter",
		"<function=a><parameter=x>1</parameter><parameter=x>2</parameter></function>": "duplicate key",
	} {
		calls, err := ParseCalls(block)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			_, list := collect([]Found{{Call: &calls[0]}})
			got = list[0]
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", block, got, want)
		}
	}
}

// TestWrite: a dialect reads its own writing.
func TestWrite(t *testing.T) {
	calls := []Call{{Name: "add", Arguments: json.RawMessage(`{"a":"x,y:\"z"}`)}, {Name: "echo", Arguments: json.RawMessage(`{}`)}}
	for _, d := range []Dialect{Hermes(), Text(), Mistral(), MistralNamed(), Granite(), Phi(), Llama()} {
		n := len(calls)
		if d.Form == Bare {
			n = 1
		}
		text := d.Write(calls[:n], d.Open, d.Close, func(raw json.RawMessage) json.RawMessage { return raw })
		f := NewFinder(d, d.Form == Bare, false, toolNames)
		var got []Call
		for _, part := range append(f.Add(text), f.Flush()...) {
			if part.Call == nil {
				t.Errorf("%s: text %q", d.Label, part.Text)
				continue
			}
			got = append(got, *part.Call)
		}
		if diff := cmp.Diff(calls[:n], got); diff != "" {
			t.Errorf("%s: %s (-want +got)\n%s", d.Label, text, diff)
		}
		if !strings.HasPrefix(d.String(), d.Open) && d.Form != Bare {
			t.Errorf("%s", d)
		}
	}
}

// FuzzFinder: however a text is divided, its calls and its text are the same; every
// call that has no fault is valid, and text without an opening marker is text.
func FuzzFinder(f *testing.F) {
	for _, s := range streams {
		f.Add(s.text, uint8(3), s.d.Form == Bare)
	}
	f.Fuzz(func(t *testing.T, text string, step uint8, bare bool) {
		d := Text()
		if bare {
			d = Llama()
		}
		run := func(n int) (string, []string) {
			find := NewFinder(d, bare, false, toolNames)
			var out []Found
			for rest := text; rest != ""; {
				k := min(n, len(rest))
				out = append(out, find.Add(rest[:k])...)
				rest = rest[k:]
			}
			out = append(out, find.Flush()...)
			for _, part := range out {
				if c := part.Call; c != nil && c.Fault == "" && (c.Name == "" || !json.Valid(c.Arguments) || c.Arguments[0] != '{') {
					t.Fatalf("%+v", c)
				}
			}
			return collect(out)
		}
		plain, calls := run(len(text) + 1)
		if again, others := run(int(step) + 1); again != plain || !slices.Equal(calls, others) {
			t.Fatalf("in pieces of %d: %q, %q; at once: %q, %q", step+1, again, others, plain, calls)
		}
		if !bare && !strings.Contains(text, d.Open) && plain != text {
			t.Fatalf("%q became %q", text, plain)
		}
	})
}
