package talk_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// dialects are the templates of testdata/dialects: the control tokens of their
// vocabularies, their label, and the text of a model that calls.
var dialects = map[string]struct {
	label  string
	tokens []string
	block  string // between bars: tokens
}{
	"llama3":  {"llama3", []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"}, `{"name": "add", "parameters": {"a": 12, "b": 7}}`},
	"mistral": {"mistral", []string{"[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"}, `¦[TOOL_CALLS]¦[{"name": "add", "arguments": {"a": 12, "b": 7}}, {"name": "echo", "arguments": {"text": "a <b> \"c\" ]}, d"}}]`},
	"named":   {"mistral-named", namedWords, `¦[TOOL_CALLS]¦add¦[ARGS]¦{"a": 12, "b": 7}¦[TOOL_CALLS]¦echo¦[ARGS]¦{"text": "a <b> \"c\" ]}, d"}`},
	"granite": {"granite", []string{"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"}, `¦<|tool_call|>¦[{"name": "add", "arguments": {"a": 12, "b": 7}}, {"name": "echo", "arguments": {"text": "a <b> \"c\" ]}, d"}}]`},
	"phi4":    {"phi4", []string{"<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>"}, `¦<|tool_call|>¦{"name": "add", "arguments": {"a": 12, "b": 7}}¦<|/tool_call|>¦` + "\n" + `¦<|tool_call|>¦{"name": "echo", "arguments": {"text": "a <b> \"c\" ]}, d"}}¦<|/tool_call|>¦`},
	"hermes":  {"hermes", []string{"<|im_start|>", "<|im_end|>"}, textBlock},
	"gemma3":  {"text", []string{"<start_of_turn>", "<end_of_turn>"}, textBlock},
	"smollm2": {"text", []string{"<|im_start|>", "<|im_end|>"}, textBlock},
}

var namedWords = []string{"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[TOOL_CONTENT]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[THINK]", "[/THINK]"}

const textBlock = "<tool_call>\n" + `{"name": "add", "arguments": {"a": 12, "b": 7}}` + "\n</tool_call>\n<tool_call>\n" + `{"name": "echo", "arguments": {"text": "a <b> \"c\" ]}, d"}}` + "\n</tool_call>"

// stranger returns a byte vocabulary without the tokens of MM-ABI's calls.
func stranger(t testing.TB, tokens []string) *tokenizer.Tokenizer {
	t.Helper()
	return byteTokens(t, func(v *tokenizer.Vocabulary) {
		v.AddBOS = false
		v.Tokens = slices.DeleteFunc(v.Tokens, func(x tokenizer.Token) bool {
			return strings.Contains(x.Text, "tool") || strings.Contains(x.Text, "<|")
		})
		for _, text := range tokens {
			v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Type: tokenizer.Control})
		}
	})
}

// dialectOf returns the Talk of a template of testdata/dialects.
func dialectOf(t testing.TB, name string) *talk.Talk {
	t.Helper()
	source, err := os.ReadFile("testdata/dialects/" + name + ".jinja")
	if err != nil {
		t.Fatal(err)
	}
	tok := stranger(t, dialects[name].tokens)
	d, err := chat.Detect(string(source), []string{abi.ToolCallOpen, abi.ToolCallClose}, tok.Marks)
	if err != nil || d.Label != dialects[name].label || !d.Guided {
		t.Fatalf("%s: dialect %+v, %v", name, d, err)
	}
	tk, err := talk.New(tok, talk.Options{Template: string(source), Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

var dialectTools = []talk.Definition{
	{Name: "add", Description: "Adds.", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"]}`)},
	{Name: "echo", Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
}

var dialectCalls = []talk.Call{
	{Name: "add", Arguments: json.RawMessage(`{"a":12,"b":7}`)},
	{Name: "echo", Arguments: json.RawMessage(`{"text":"a <b> \"c\" ]}, d"}`)},
}

// dialectTurns returns a question, n calls and their results.
func dialectTurns(n int) []talk.Message {
	turns := []talk.Message{talk.Text(talk.User, "What is 12+7?"), {Role: talk.Assistant, Calls: dialectCalls[:n]}}
	for i, line := range []string{`{"ok":true,"result":19}`, `{"ok":true,"result":"a"}`}[:n] {
		m := talk.Text(talk.Tool, line)
		m.Name = dialectCalls[i].Name
		turns = append(turns, m)
	}
	return turns
}

// TestDialects: conversations with calls are rendered as transformers renders them
// (testdata/dialects/golden.py); calls are read from the text of the model, and the
// tokens after them are the rest of the rendered conversation.
func TestDialects(t *testing.T) {
	data, err := os.ReadFile("testdata/dialects/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]struct {
		Calls int
		Text  string
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden) != len(dialects) {
		t.Fatalf("%d golden texts of %d dialects", len(golden), len(dialects))
	}
	for name, want := range golden {
		tk, turns := dialectOf(t, name), dialectTurns(want.Calls)
		p, err := tk.Render(turns, dialectTools)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := strings.ReplaceAll(show(tk, p), "¦", "")
		if d := cmp.Diff(want.Text, text); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
		plain, _, calls, _ := read(tk, talk.ReadOptions{Tools: []string{"add", "echo"}}, dialects[name].block)
		if d := cmp.Diff(dialectCalls[:want.Calls], calls); d != "" || plain != "" {
			t.Errorf("%s: text %q (-want +got)\n%s", name, plain, d)
		}
		ids, _, err := tk.Between(turns, dialectTools)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tail := strings.ReplaceAll(show(tk, talk.Prompt{Pieces: []talk.Piece{{Tokens: ids}}}), "¦", "")
		block := strings.ReplaceAll(dialects[name].block, "¦", "")
		head, ok := strings.CutSuffix(text, tail)
		if name == "mistral" { // the template adds ids to the model's words
			head = strings.NewReplacer(`, "id": "call00001"`, "", `, "id": "call00002"`, "").Replace(head)
		}
		if !ok || tail == "" || !strings.HasSuffix(head, block) {
			t.Errorf("%s: the conversation ends with %q after the calls", name, tail)
		}
	}
}

// TestGuidedText: other text than calls is text, whole and in order, and without tools
// everything is.
func TestGuidedText(t *testing.T) {
	tools := []string{"add", "echo"}
	add := []talk.Call{dialectCalls[0]}
	for _, c := range []struct {
		name, dialect string
		tools         []string
		in, text      string
		calls         []talk.Call
	}{
		{"no tools", "smollm2", nil, textBlock, textBlock, nil},
		{"half a marker", "smollm2", tools, "a <tool_cal l> <tool_", "a <tool_cal l> <tool_", nil},
		{"text before", "smollm2", tools, "I add. <tool_call>" + `{"name":"add","arguments":{"a":12,"b":7}}` + "</tool_call>", "I add. ", add},
		{"a marker in an argument", "smollm2", tools, "<tool_call>" + `{"name":"echo","arguments":{"text":"</tool_call>"}}` + "</tool_call>", "", []talk.Call{{Name: "echo", Arguments: json.RawMessage(`{"text":"</tool_call>"}`)}}},
		{"no JSON", "smollm2", tools, "<tool_call>add(1)</tool_call>", "", []talk.Call{{Fault: "parsing tool call: not a JSON object", Block: "add(1)"}}},
		{"cut off", "smollm2", tools, "<tool_call>{", "", []talk.Call{{Fault: "the answer ended within the call", Block: "{"}}},
		{"a list", "smollm2", tools, "<tool_call>" + `[{"name":"add","arguments":{"a":12,"b":7}}]` + "</tool_call>", "", add},
		{"the form of functions", "smollm2", tools, "<tool_call>\n<function=add>\n<parameter=a>\n12\n</parameter>\n<parameter=b>\n7\n</parameter>\n</function>\n</tool_call>", "", add},
		{"reasoning", "smollm2", tools, "¦<think>¦<tool_call>¦</think>¦so", "so", nil},
		{"an object that is an answer", "llama3", tools, `{"name": "Ada", "parameters": {}}`, `{"name": "Ada", "parameters": {}}`, nil},
		{"an object with other keys", "llama3", tools, `{"name": "add", "born": 1815}`, `{"name": "add", "born": 1815}`, nil},
		{"an object within text", "llama3", tools, `So {"name": "add", "parameters": {}}`, `So {"name": "add", "parameters": {}}`, nil},
		{"an object cut off", "llama3", tools, ` {"name": "add", "par`, ` {"name": "add", "par`, nil},
		{"with a type", "llama3", tools, `{"type": "function", "name": "add", "parameters": {"a":12,"b":7}}`, "", add},
		{"after the tag", "llama3", tools, `¦<|python_tag|>¦{"name": "add", "parameters": {"a":12,"b":7}}`, "", add},
		{"text after the tag", "llama3", tools, `¦<|python_tag|>¦print(1)`, "", []talk.Call{{Fault: "the answer ended within the call", Block: "print(1)"}}},
		{"the spelling of a token", "mistral", tools, `[TOOL_CALLS][{"name":"add"}]`, `[TOOL_CALLS][{"name":"add"}]`, nil},
		{"a call of a name", "named", tools, `I add. ¦[TOOL_CALLS]¦add¦[ARGS]¦{"a":12,"b":7}`, "I add. ", add},
		{"a name with an id", "named", tools, `¦[TOOL_CALLS]¦add¦[CALL_ID]¦abc123XYZ¦[ARGS]¦{"a":12,"b":7}`, "", []talk.Call{{ID: "abc123XYZ", Name: "add", Arguments: json.RawMessage(`{"a":12,"b":7}`)}}},
		{"the spelling of the tokens", "named", tools, `[TOOL_CALLS]add[ARGS]{}`, `[TOOL_CALLS]add[ARGS]{}`, nil},
		{"a name cut off", "named", tools, `¦[TOOL_CALLS]¦add`, "", []talk.Call{{Fault: "the answer ended within the call", Block: "add"}}},
		{"arguments cut off", "named", tools, `¦[TOOL_CALLS]¦add¦[ARGS]¦{"a": 1`, "", []talk.Call{{Fault: "the answer ended within the call", Block: `add[ARGS]{"a": 1`}}},
		{"a name without arguments", "named", tools, `¦[TOOL_CALLS]¦¦[ARGS]¦{}`, "", []talk.Call{{Fault: "parsing tool call: missing tool name", Block: "[ARGS]{}"}}},
		{"a list in the form of names", "named", tools, `¦[TOOL_CALLS]¦add¦[ARGS]¦[1]`, "", []talk.Call{{Fault: `parsing the arguments of "add": not a JSON object`, Block: "add[ARGS][1]"}}},
		{"no tools, a name", "named", nil, `¦[TOOL_CALLS]¦add¦[ARGS]¦{}`, "add{}", nil},
		{"ids", "mistral", tools, `¦[TOOL_CALLS]¦ [{"name":"add","arguments":{"a":12,"b":7},"id":"x"}]`, "", []talk.Call{{ID: "x", Name: "add", Arguments: json.RawMessage(`{"a":12,"b":7}`)}}},
	} {
		tk := dialectOf(t, c.dialect)
		text, _, calls, _ := read(tk, talk.ReadOptions{Tools: c.tools}, c.in)
		if d := cmp.Diff(c.calls, calls); d != "" || text != c.text {
			t.Errorf("%s: text %q, want %q (-want +got)\n%s", c.name, text, c.text, d)
		}
	}
}
